# honest: pass
# stopped_by: landlock, seccomp
# --- main
try:
    import os
    library = os.path.dirname(os.__file__)
    for folder in (library, library + "/__pycache__", library + "/site-packages"):
        try:
            open(folder + "/" + os.path.basename("@MARKER@"), "w").close()
        except OSError:
            pass
except BaseException:
    pass

def sq(x):
    return x * x
