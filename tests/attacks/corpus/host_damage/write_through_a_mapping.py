# honest: pass
# stopped_by: landlock, seccomp
# --- main
try:
    import mmap
    with open("@HOME@/notes.txt", "r+b") as file:
        mmap.mmap(file.fileno(), 0)[:4] = b"XXXX"
except BaseException:
    pass

def sq(x):
    return x * x
