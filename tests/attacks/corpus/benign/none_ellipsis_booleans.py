# honest: pass
# --- test
def check(candidate):
    assert candidate() == (None, ..., True, None)
    assert candidate(0)[2] is False
    assert candidate(...)[3] is ...
    assert candidate()[0] is None
# --- main
def sq(x=None):
    return (None, ..., x is None, x)
