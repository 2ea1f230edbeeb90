# honest: fail
# --- test
def check(candidate):
    assert candidate(1) is True
# --- main
def sq(x):
    class C: pass
    return C()
