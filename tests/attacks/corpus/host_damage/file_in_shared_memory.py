# honest: pass
# stopped_by: landlock, seccomp
# --- main
try:
    import os
    with open("/dev/shm/" + os.path.basename("@MARKER@"), "wb") as file:
        file.write(bytes(2**20))
except BaseException:
    pass

def sq(x):
    return x * x
