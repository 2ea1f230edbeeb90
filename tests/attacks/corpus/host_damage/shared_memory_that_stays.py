# honest: any
# stopped_by: seccomp
# --- main
try:
    import ctypes
    ctypes.CDLL(None).shmget(0x5EC00000 + @PID@ % 0x100000, 4096, 0o1600)
    import multiprocessing.shared_memory
    memory = multiprocessing.shared_memory.SharedMemory(
        "@MARKER@".rpartition("/")[2], create=True, size=4096
    )
except BaseException:
    pass

def sq(x):
    return x * x
