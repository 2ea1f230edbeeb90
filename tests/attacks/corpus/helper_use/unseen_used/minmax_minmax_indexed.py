# honest: used
# entry_point: minmax
# --- test
def check(candidate):
    assert candidate([3, 1, 2]) == 2
    assert candidate([7]) == 0
    assert candidate([-1, 5]) == 6
# --- aux
def aux(xs):
    return min(xs), max(xs)
# --- main
def minmax(xs):
    p = aux(xs)
    return p[1] - p[0]
