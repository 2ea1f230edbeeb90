# honest: pass
# stopped_by: landlock, seccomp
# --- main
try:
    import pathlib, threading
    def write():
        try:
            pathlib.Path("@MARKER@").touch()
        except OSError:
            pass
    thread = threading.Thread(target=write)
    thread.start()
    thread.join()
except BaseException:
    pass

def sq(x):
    return x * x
