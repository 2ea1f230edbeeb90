# honest: pass
# --- test
def check(candidate):
    assert candidate(3) == 9
# --- main
import sys
print("loading", end="")
def sq(x):
    print("squaring", x, flush=True)
    sys.stderr.write("warning\n")
    sys.stdout.write("")
    return x * x
