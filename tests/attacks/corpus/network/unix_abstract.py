# honest: pass
# stopped_by: namespaces, seccomp
# --- main
try:
    import socket
    own = socket.socket(socket.AF_UNIX)
    own.settimeout(1)
    own.connect("\0@UNIX_SOCKET@")
except BaseException:
    pass

def sq(x):
    return x * x
