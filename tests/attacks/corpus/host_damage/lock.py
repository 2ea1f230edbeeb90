# honest: any
# stopped_by: namespaces, seccomp
# --- main
try:
    import fcntl, os
    if os.fork() == 0:
        os.setsid()
        fcntl.flock(os.open("@HOME@/notes.txt", os.O_RDONLY), fcntl.LOCK_EX)
        import time
        time.sleep(30)
        os._exit(0)
except BaseException:
    pass

def sq(x):
    return x * x
