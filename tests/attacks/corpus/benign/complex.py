# honest: pass
# --- test
def check(candidate):
    assert candidate(1j) [0] == -1
    assert candidate(-4)[1] == 2j
    assert abs(candidate(1 + 1j)[0] - 2j) < 1e-12
# --- main
import cmath
def sq(z):
    return z * z, cmath.sqrt(z)
