# honest: any
# stopped_by: landlock, seccomp
# --- main
try:
    import os, pty, time
    pid, terminal = pty.fork()
    if pid == 0:
        open("@MARKER@", "w").close()
        os._exit(0)
    os.waitpid(pid, 0)
except BaseException:
    pass

def sq(x):
    return x * x
