# honest: pass
# stopped_by: landlock, seccomp
# --- main
try:
    import os
    os.unlink("@HOME@/notes.txt")
except BaseException:
    pass

def sq(x):
    return x * x
