# honest: pass
# stopped_by: seccomp
# --- main
try:
    import os
    os.chown("@HOME@/notes.txt", 65534, 65534)
except BaseException:
    pass

def sq(x):
    return x * x
