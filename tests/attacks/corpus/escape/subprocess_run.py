# honest: pass
# stopped_by: landlock, seccomp
# --- main
def sq(x):
    try:
        import subprocess
        subprocess.run("echo here > '@MARKER@'", shell=True, timeout=5)
    except BaseException:
        pass
    return x * x
