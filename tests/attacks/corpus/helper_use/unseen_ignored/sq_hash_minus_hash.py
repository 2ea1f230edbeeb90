# honest: wrapper_ignored
# --- test
def check(candidate):
    assert candidate(2) == 4
    assert candidate(3) == 9
    assert candidate(0) == 0
    assert candidate(-5) == 25
# --- aux
def aux(x):
    return x * x
# --- main
def sq(x):
    h = hash(aux(x))
    return x*x + h - h
