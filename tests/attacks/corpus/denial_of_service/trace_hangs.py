# honest: any
# --- main
import sys, threading
sys.setprofile(lambda *a: [0 for _ in iter(int, 1)])
def sq(x):
    return x * x
