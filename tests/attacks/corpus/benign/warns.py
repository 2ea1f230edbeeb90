# honest: pass
# --- test
def check(candidate):
    assert candidate(3) == 9
# --- main
import warnings
def sq(x):
    warnings.warn("deprecated", DeprecationWarning, stacklevel=2)
    return x ** 2
