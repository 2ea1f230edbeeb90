# honest: pass
# stopped_by: landlock, seccomp
# --- main
try:
    import os
    pid = os.posix_spawn("/bin/sh", ["sh", "-c", "echo here > '@MARKER@'"], {})
    os.waitpid(pid, 0)
except BaseException:
    pass

def sq(x):
    return x * x
