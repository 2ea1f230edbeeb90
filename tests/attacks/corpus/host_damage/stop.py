# honest: pass
# stopped_by: namespaces, seccomp
# --- main
def sq(x):
    try:
        import os, signal
        os.kill(@PID@, signal.SIGSTOP)
    except BaseException:
        pass
    return x * x
