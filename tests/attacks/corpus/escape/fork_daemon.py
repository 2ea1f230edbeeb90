# honest: pass
# stopped_by: namespaces, seccomp
# --- main
try:
    import os, time
    if os.fork() == 0:
        os.setsid()
        time.sleep(30)
        os._exit(0)
except BaseException:
    pass

def sq(x):
    return x * x
