# honest: pass
# stopped_by: landlock, seccomp
# --- main
try:
    open("@MARKER@", "w").write("here")
except BaseException:
    pass

def sq(x):
    return x * x
