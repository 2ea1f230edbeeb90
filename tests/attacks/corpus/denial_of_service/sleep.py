# honest: fail
# --- main
import time

def sq(x):
    time.sleep(10**6)
    return x * x
