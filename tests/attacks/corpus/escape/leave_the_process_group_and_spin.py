# honest: fail
# --- main
try:
    import os
    os.setsid()
    os.setpgid(0, 0)
except BaseException:
    pass

def sq(x):
    return x * x

while True:
    pass
