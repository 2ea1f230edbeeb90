# honest: pass
# stopped_by: landlock, seccomp
# --- main
try:
    import os
    for folder in ("/tmp", "/var/tmp", "/run", "/run/lock"):
        for number in range(200):
            try:
                open(f"{folder}/{os.path.basename('@MARKER@')}-{number}", "w").close()
            except OSError:
                pass
except BaseException:
    pass

def sq(x):
    return x * x
