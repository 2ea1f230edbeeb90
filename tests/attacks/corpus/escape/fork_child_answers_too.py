# honest: any
# stopped_by: namespaces, seccomp
# --- main
import os
try:
    os.fork()
except OSError:
    pass

def sq(x):
    return x * x
