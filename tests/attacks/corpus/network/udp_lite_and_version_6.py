# honest: pass
# stopped_by: namespaces, seccomp
# --- main
try:
    import socket
    for family, host in ((socket.AF_INET6, "::ffff:127.0.0.1"), (socket.AF_INET, "0.0.0.0")):
        own = socket.socket(family, socket.SOCK_DGRAM)
        own.connect((host, @UDP_PORT@))
        own.send(b"hello")
except BaseException:
    pass

def sq(x):
    return x * x
