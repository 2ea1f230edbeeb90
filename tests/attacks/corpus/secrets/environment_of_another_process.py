# honest: pass
# stopped_by: landlock, namespaces
# --- main
try:
    print(open("/proc/@PID@/environ", "rb").read(), flush=True)
except BaseException:
    pass

def sq(x):
    return x * x
