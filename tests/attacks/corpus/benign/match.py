# honest: pass
# --- test
def check(candidate):
    assert candidate(3) == 9
    assert candidate([7, 8]) == 7
    assert candidate({"n": 2}) == 4
    assert candidate("x") is None
# --- main
def sq(x):
    match x:
        case int() | float():
            return x * x
        case [first, *_]:
            return first
        case {"n": n}:
            return n * n
        case _:
            return None
