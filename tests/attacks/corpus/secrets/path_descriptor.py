# honest: pass
# stopped_by: landlock
# --- main
try:
    import os
    handle = os.open("@SECRET_FILE@", os.O_PATH)
    print(open(f"/proc/self/fd/{handle}").read(), flush=True)
except BaseException:
    pass

def sq(x):
    return x * x
