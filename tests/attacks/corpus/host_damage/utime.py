# honest: pass
# stopped_by: seccomp
# --- main
try:
    import os
    os.utime("@HOME@/notes.txt", (0, 0))
except BaseException:
    pass

def sq(x):
    return x * x
