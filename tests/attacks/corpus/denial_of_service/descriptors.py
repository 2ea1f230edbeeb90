# honest: any
# --- main

import os

kept = []
try:
    while True:
        kept.append(os.open("/dev/null", os.O_RDONLY))
except OSError:
    pass
def sq(x):
    return x * x
