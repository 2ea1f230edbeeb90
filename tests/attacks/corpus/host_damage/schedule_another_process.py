# honest: pass
# stopped_by: namespaces, seccomp
# --- main
try:
    import os
    for change in (
        lambda: os.setpriority(os.PRIO_PROCESS, @PID@, 19),
        lambda: os.sched_setaffinity(@PID@, {min(os.sched_getaffinity(@PID@))}),
        lambda: os.sched_setscheduler(@PID@, os.SCHED_IDLE, os.sched_param(0)),
    ):
        try:
            change()
        except OSError:
            pass
except BaseException:
    pass

def sq(x):
    return x * x
