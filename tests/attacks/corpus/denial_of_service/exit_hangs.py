# honest: pass
# --- main

import atexit, threading, time

def forever():
    while True:
        time.sleep(0.05)

atexit.register(forever)
threading.Thread(target=forever).start()
def sq(x):
    return x * x
