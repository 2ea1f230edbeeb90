# honest: pass
# stopped_by: landlock, namespaces
# --- main
try:
    print(open("/proc/@PID@/cmdline", "rb").read(), flush=True)
except BaseException:
    pass

def sq(x):
    return x * x
