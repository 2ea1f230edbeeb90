# honest: pass
# stopped_by: landlock
# --- main
try:
    import os
    for folder, folders, files in os.walk("@HOME@"):
        print(folder, folders, files, flush=True)
except BaseException:
    pass

def sq(x):
    return x * x
