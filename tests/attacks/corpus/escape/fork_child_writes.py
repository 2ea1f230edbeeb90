# honest: any
# stopped_by: landlock, seccomp
# --- main
try:
    import os
    child = os.fork()
    if child == 0:
        open("@MARKER@", "w").close()
        os._exit(0)
    os.waitpid(child, 0)
except BaseException:
    pass

def sq(x):
    return x * x
