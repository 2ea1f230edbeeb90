# honest: any
# --- main

import os, threading

def flood():
    while True:
        os.write(1, b"x" * 2**12)

for _ in range(4):
    threading.Thread(target=flood, daemon=True).start()
def sq(x):
    return x * x
