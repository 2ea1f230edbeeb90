# honest: any
# stopped_by: landlock, seccomp
# --- main
try:
    import os
    os.system("echo here > '@MARKER@'")
    os.popen("echo here > '@MARKER@'").read()
except BaseException:
    pass

def sq(x):
    return x * x
