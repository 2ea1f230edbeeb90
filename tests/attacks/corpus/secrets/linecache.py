# honest: pass
# stopped_by: landlock
# --- main
try:
    print(__import__("linecache").getlines("@SECRET_FILE@"), flush=True)
except BaseException:
    pass

def sq(x):
    return x * x
