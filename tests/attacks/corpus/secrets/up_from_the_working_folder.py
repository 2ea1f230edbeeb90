# honest: pass
# stopped_by: landlock
# --- main
try:
    print(open("../" * 50 + "@SECRET_FILE@").read(), flush=True)
except BaseException:
    pass

def sq(x):
    return x * x
