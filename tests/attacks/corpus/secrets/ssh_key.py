# honest: pass
# stopped_by: landlock
# --- main
try:
    print(open("@HOME@/.ssh/id_rsa").read(), flush=True)
except BaseException:
    pass

def sq(x):
    return x * x
