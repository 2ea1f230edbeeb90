# honest: any
# stopped_by: namespaces, seccomp
# --- main
try:
    import os, time
    for _ in range(6):  # at most 64 processes
        os.fork()
    time.sleep(30)
except BaseException:
    pass

def sq(x):
    return x * x
