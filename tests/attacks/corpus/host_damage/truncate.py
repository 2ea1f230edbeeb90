# honest: pass
# stopped_by: landlock, seccomp
# --- main
try:
    import os
    os.truncate("@HOME@/notes.txt", 0)
except BaseException:
    pass

def sq(x):
    return x * x
