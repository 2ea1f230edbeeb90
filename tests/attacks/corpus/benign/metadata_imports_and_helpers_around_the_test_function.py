# honest: pass
# --- test
import math

METADATA = {'author': 'somebody'}
CASES = ((2, 4), (3, 9))


def close(a, b):
    return math.isclose(a, b)


def check(candidate):
    for given, expected in CASES:
        assert close(candidate(given), expected)
# --- main
def sq(x):
    return x*x
