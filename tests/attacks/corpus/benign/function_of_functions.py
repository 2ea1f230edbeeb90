# honest: pass
# --- test
def check(candidate):
    assert candidate(2)()() == 2
# --- main
def sq(x):
    return lambda: lambda: x
