# honest: pass
# --- test
def check(candidate):
    assert candidate(3) == 9
# --- main
import time
def sq(x):
    begin = time.monotonic()
    time.sleep(0.01)
    return x * x if time.monotonic() > begin else None
