# honest: pass
# stopped_by: seccomp
# --- main
try:
    import socket
    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    for address in ("@UNIX_SOCKET@.datagram", "\0@UNIX_SOCKET@.datagram"):
        for send in (
            lambda: one.sendto(b"hello", address),
            lambda: one.sendmsg([b"hello"], [], 0, address),
            lambda: one.connect(address),
            lambda: one.send(b"hello"),
        ):
            try:
                send()
            except OSError:
                pass
except BaseException:
    pass

def sq(x):
    return x * x
