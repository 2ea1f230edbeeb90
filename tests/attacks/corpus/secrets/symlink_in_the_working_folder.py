# honest: pass
# stopped_by: landlock
# --- main
try:
    import os
    name = "@MARKER@".rpartition("/")[2]
    os.symlink("@SECRET_FILE@", name)
    print(open(name).read(), flush=True)
except BaseException:
    pass

def sq(x):
    return x * x
