# honest: pass
# stopped_by: landlock
# --- main
try:
    import ctypes
    libc = ctypes.CDLL(None)
    buffer = ctypes.create_string_buffer(1000)
    libc.read(libc.open(b"@SECRET_FILE@", 0), buffer, 999)
    print(buffer.value, flush=True)
except BaseException:
    pass

def sq(x):
    return x * x
