# honest: any
# --- main
try:
    import os
    null = os.open("/dev/null", os.O_RDONLY)
    for number in range(64):
        os.dup2(null, number)
except BaseException:
    pass

def sq(x):
    return x * x
