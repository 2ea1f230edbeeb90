# honest: pass
# stopped_by: namespaces, seccomp
# --- main
try:
    import os, signal
    os.kill(@PID@, signal.SIGKILL)
except BaseException:
    pass

def sq(x):
    return x * x
