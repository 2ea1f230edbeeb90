# honest: pass
# stopped_by: landlock, seccomp
# --- main
try:
    import os
    name = "@MARKER@".rpartition("/")[2]
    for depth in range(200):
        os.mkdir(name)
        os.chdir(name)
        if depth < 40:
            name += "-long"
    os.chmod(".", 0)
except BaseException:
    pass

def sq(x):
    return x * x
