# honest: pass
# stopped_by: landlock, seccomp
# --- main
try:
    import os
    for descriptor in range(64):
        try:
            os.set_inheritable(descriptor, True)  # nobody sees this process end
        except OSError:
            pass
    os.execv("/bin/sh", ["sh", "-c", "echo here > '@MARKER@'"])
except BaseException:
    pass

def sq(x):
    return x * x
