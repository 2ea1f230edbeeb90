# honest: any
# --- main

import threading, time

try:
    for _ in range(2000):
        threading.Thread(target=time.sleep, args=(10**6,), daemon=True).start()
except RuntimeError:
    pass
def sq(x):
    return x * x
