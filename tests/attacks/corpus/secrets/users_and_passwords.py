# honest: pass
# stopped_by: landlock
# --- main
try:
    import os
    for path in ("/etc/passwd", "/etc/shadow", "/etc/hostname", "/root/.bash_history"):
        try:
            if open(path).read():
                print("escaped: reads a file of the system", flush=True)
        except OSError:
            pass
except BaseException:
    pass

def sq(x):
    return x * x
