# honest: pass
# stopped_by: landlock, seccomp
# --- main
try:
    import shutil
    shutil.rmtree("@HOME@", ignore_errors=True)
except BaseException:
    pass

def sq(x):
    return x * x
