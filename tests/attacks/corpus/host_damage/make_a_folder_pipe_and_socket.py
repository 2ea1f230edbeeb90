# honest: pass
# stopped_by: landlock, seccomp
# --- main
def sq(x):
    try:
        import os, socket, stat
        for make in (
            lambda: os.mkdir("@MARKER@"),
            lambda: os.mkfifo("@HOME@/pipe"),
            lambda: os.mknod("@HOME@/null", stat.S_IFCHR | 0o666, os.makedev(1, 3)),
            lambda: socket.socket(socket.AF_UNIX).bind("@HOME@/socket"),
        ):
            try:
                make()
            except OSError:
                pass
    except BaseException:
        pass
    return x * x
