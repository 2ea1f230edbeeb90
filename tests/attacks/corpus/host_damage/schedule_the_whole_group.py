# honest: pass
# stopped_by: namespaces, seccomp
# --- main
try:
    import os
    os.setpriority(os.PRIO_PGRP, @PID@, 19)
except BaseException:
    pass

def sq(x):
    return x * x
