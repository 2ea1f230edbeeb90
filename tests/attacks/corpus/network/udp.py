# honest: pass
# stopped_by: namespaces, seccomp
# --- main
try:
    import socket
    socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"hello", ("127.0.0.1", @UDP_PORT@))
except BaseException:
    pass

def sq(x):
    return x * x
