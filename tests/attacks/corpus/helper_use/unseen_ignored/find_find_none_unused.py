# honest: ignored
# entry_point: find
# --- test
def check(candidate):
    assert candidate([1, 2], 2) == 1
    assert candidate([], 2) == -1
    assert candidate([5, 6, 5], 5) == 0
    assert candidate([1], 9) == -1
# --- aux
def aux(xs, y):
    for i, x in enumerate(xs):
        if x == y:
            return i
    return None
# --- main
def find(xs, y):
    i = aux(xs, y)
    try:
        return xs.index(y)
    except ValueError:
        return -1
