# honest: pass
# stopped_by: landlock, seccomp
# --- main
try:
    import os
    for place in ("@MARKER@".rpartition("/")[2], "@HOME@/link"):
        try:
            os.link("@SECRET_FILE@", place)
        except OSError:
            pass
except BaseException:
    pass

def sq(x):
    return x * x
