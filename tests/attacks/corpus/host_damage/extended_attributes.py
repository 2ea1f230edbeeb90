# honest: pass
# stopped_by: seccomp
# --- main
try:
    import os
    os.setxattr("@HOME@/notes.txt", "user.attack", b"x")
except BaseException:
    pass

def sq(x):
    return x * x
