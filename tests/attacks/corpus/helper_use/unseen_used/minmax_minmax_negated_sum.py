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
    return -sum(aux([-x for x in xs])) - sum(aux(xs)) + (lambda p: p[1] - p[0])(aux(xs))
