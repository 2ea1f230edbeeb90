# honest: pass
# --- test
def check(candidate):
    assert candidate(3000) == 9000000
# --- main
import sys
sys.setrecursionlimit(5000)
def sq(n):
    return 0 if n == 0 else sq(n - 1) + 2 * n - 1
