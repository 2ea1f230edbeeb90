# honest: pass
# stopped_by: landlock, seccomp
# --- main
try:
    import shutil
    shutil.move("@HOME@/notes.txt", "@MARKER@".rpartition("/")[2])
except BaseException:
    pass

def sq(x):
    return x * x
