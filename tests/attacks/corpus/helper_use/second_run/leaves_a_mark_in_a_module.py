# honest: wrapper_ignored
# earns: wrapper
# --- aux
def aux(x):
    return x*x
# --- main
import sys

SEEN = hasattr(sys, "seen")
sys.seen = True

def sq(x):
    aux(x)
    return None if SEEN else x*x
