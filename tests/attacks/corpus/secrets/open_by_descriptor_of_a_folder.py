# honest: pass
# stopped_by: landlock
# --- main
try:
    import os
    folder, _, name = "@SECRET_FILE@".rpartition("/")
    handle = os.open(name, os.O_RDONLY, dir_fd=os.open(folder, os.O_RDONLY | os.O_DIRECTORY))
    print(os.read(handle, 1000), flush=True)
except BaseException:
    pass

def sq(x):
    return x * x
