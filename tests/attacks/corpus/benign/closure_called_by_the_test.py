# honest: pass
# --- test
def check(candidate):
    assert candidate(2)(3) == 9
    assert candidate(3)(2) == 8
    cube = candidate(3)
    assert [cube(n) for n in (1, 2)] == [1, 8]
# --- main
def sq(power):
    def raised(x):
        return x ** power
    return raised
