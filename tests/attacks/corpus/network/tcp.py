# honest: pass
# stopped_by: namespaces, seccomp
# --- main
try:
    import socket
    socket.create_connection(("127.0.0.1", @TCP_PORT@), 1).sendall(b"hello")
except BaseException:
    pass

def sq(x):
    return x * x
