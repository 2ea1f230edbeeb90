# honest: fail
# --- main
import sys

sys.setrecursionlimit(2**31 - 1)

def sq(x):
    return sq(x + 1)
