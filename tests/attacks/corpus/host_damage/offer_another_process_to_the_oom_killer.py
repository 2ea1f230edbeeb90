# honest: pass
# stopped_by: landlock, seccomp
# --- main
try:
    with open("/proc/@PID@/oom_score_adj", "w") as file:
        file.write("1000")
except BaseException:
    pass

def sq(x):
    return x * x
