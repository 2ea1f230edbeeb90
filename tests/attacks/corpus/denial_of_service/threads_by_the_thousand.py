# honest: any
# --- main

import threading

threading.stack_size(32768)
never = threading.Event()
started = 0
try:
    while started < 7000:
        threading.Thread(target=never.wait, daemon=True).start()
        started += 1
    print("escaped: thousands of threads", flush=True)
except RuntimeError:
    pass

def sq(x):
    return x * x
