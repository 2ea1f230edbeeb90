# honest: pass
# stopped_by: namespaces, seccomp
# --- main
try:
    import socket
    own = socket.socket()
    own.sendto(b"hello", 0x20000000, ("127.0.0.1", @TCP_PORT@))  # MSG_FASTOPEN
except BaseException:
    pass

def sq(x):
    return x * x
