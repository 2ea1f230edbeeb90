# honest: any
# stopped_by: namespaces, seccomp
# --- main
def sq(x):
    try:
        import os, signal
        os.kill(os.getppid(), signal.SIGSTOP)
    except BaseException:
        pass
    return x * x
