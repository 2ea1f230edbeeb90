# honest: pass
# --- test
def check(candidate):
    assert candidate(2) == 4
    assert candidate(3) + 1 == 10
# --- main
class sq(int):
    def __new__(cls, x):
        return super().__new__(cls, x * x)
