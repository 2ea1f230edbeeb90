# honest: pass
# stopped_by: landlock, seccomp
# --- main
try:
    import os
    os.close(os.open("@ANSWERS@", os.O_RDONLY | os.O_TRUNC))
    open("@ANSWERS@", "w").write("{}")
except BaseException:
    pass

def sq(x):
    return x * x
