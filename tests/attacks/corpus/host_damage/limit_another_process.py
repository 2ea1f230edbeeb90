# honest: pass
# stopped_by: namespaces, seccomp
# --- main
try:
    import resource
    resource.prlimit(@PID@, resource.RLIMIT_NOFILE, (16, 16))
    resource.prlimit(@PID@, resource.RLIMIT_CPU, (1, 1))
except BaseException:
    pass

def sq(x):
    return x * x
