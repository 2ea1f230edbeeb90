# honest: pass
# stopped_by: seccomp
# --- main
try:
    import socket
    own = socket.socket(socket.AF_UNIX)
    own.settimeout(1)
    own.connect("@UNIX_SOCKET@")
    own.sendall(b"hello")
except BaseException:
    pass

def sq(x):
    return x * x
