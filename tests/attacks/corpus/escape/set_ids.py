# honest: any
# stopped_by: seccomp
# --- main
try:
    import os
    for change in (os.setgroups, os.setuid, os.setgid):
        try:
            change([0] if change is os.setgroups else 0)
            print("escaped: sets its user or groups", flush=True)
        except OSError:
            pass
except BaseException:
    pass

def sq(x):
    return x * x
