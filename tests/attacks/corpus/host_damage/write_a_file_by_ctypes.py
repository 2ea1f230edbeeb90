# honest: pass
# stopped_by: landlock, seccomp
# --- main
try:
    import ctypes
    libc = ctypes.CDLL(None)
    libc.fopen.restype = ctypes.c_void_p
    libc.creat(b"@MARKER@", 0o600)
    libc.fopen(b"@MARKER@", b"w")
except BaseException:
    pass

def sq(x):
    return x * x
