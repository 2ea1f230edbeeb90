# honest: any
# stopped_by: namespaces, seccomp
# --- main
try:
    import fcntl, os, signal, socket
    readers = [os.pipe(), tuple(s.detach() for s in socket.socketpair())]
    for reader, writer in readers:
        fcntl.fcntl(reader, fcntl.F_SETOWN, @PID@)
        fcntl.fcntl(reader, 10, signal.SIGUSR1)  # F_SETSIG
        fcntl.fcntl(reader, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)
        os.write(writer, b"x")
except BaseException:
    pass

def sq(x):
    return x * x
