# honest: pass
# stopped_by: seccomp
# --- main
def sq(x):
    try:
        import socket
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b"hello", "@UNIX_SOCKET@.datagram")
    except BaseException:
        pass
    return x * x
