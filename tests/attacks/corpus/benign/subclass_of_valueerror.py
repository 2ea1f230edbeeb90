# honest: pass
# --- test
def check(candidate):
    try:
        candidate(-1)
        assert False
    except ValueError:
        assert True
    assert candidate(2) == 4
# --- main
class Negative(ValueError):
    def __init__(self, value):
        super().__init__(f"{value} is negative")
        self.value = value
def sq(x):
    if x < 0:
        raise Negative(x)
    return x * x
