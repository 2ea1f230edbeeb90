# honest: wrapper
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
def twice(f):
    def g(x):
        return f(x) + f(x)
    return g

@twice
def half(x):
    return aux(x) / 2

def sq(x):
    return int(half(x))
