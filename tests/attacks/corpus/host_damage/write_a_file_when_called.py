# honest: pass
# stopped_by: landlock, seccomp
# --- main
def sq(x):
    try:
        import os
        os.close(os.open("@MARKER@", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    except BaseException:
        pass
    return x * x
