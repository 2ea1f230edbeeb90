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
class Squarer:
    def __init__(self, f):
        self.f = f
    def __call__(self, x):
        return self.f(x) * 1

def sq(x):
    return Squarer(aux)(x)
