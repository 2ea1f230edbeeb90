# honest: pass
# stopped_by: landlock, seccomp
# --- main
try:
    import os
    os.symlink("/etc/passwd", "@HOME@/link")
except BaseException:
    pass

def sq(x):
    return x * x
