# about: a signal that every program but the victim ignores; whoever can send it can send SIGKILL
# honest: pass
# stopped_by: namespaces, seccomp
# --- main
try:
    import os, signal
    os.kill(-1, signal.SIGURG)
except BaseException:
    pass

def sq(x):
    return x * x
