# honest: pass
# stopped_by: namespaces, seccomp
# --- main
try:
    import socket
    own = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262)
    own.connect(("127.0.0.1", @TCP_PORT@))
except BaseException:
    pass

def sq(x):
    return x * x
