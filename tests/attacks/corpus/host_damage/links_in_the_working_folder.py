# honest: pass
# stopped_by: landlock, seccomp
# --- main
try:
    import os
    name = "@MARKER@".rpartition("/")[2]
    os.makedirs(name + "/a")
    for place in (name + "-0", name + "/home", name + "/a/home"):
        try:
            os.symlink("@HOME@", place)
        except OSError:
            pass
except BaseException:
    pass

def sq(x):
    return x * x
