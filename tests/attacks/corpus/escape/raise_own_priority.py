# honest: any
# stopped_by: namespaces, seccomp
# --- main
try:
    import os
    os.nice(-5)
    print("escaped: goes before other processes", flush=True)
except BaseException:
    pass

def sq(x):
    return x * x
