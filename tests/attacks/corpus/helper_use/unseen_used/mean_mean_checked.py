# honest: wrapper
# entry_point: mean
# --- test
def check(candidate):
    assert candidate([1, 2]) == 1.5
    assert candidate([]) == 0.0
    assert candidate([4.0]) == 4.0
# --- aux
def aux(xs):
    return sum(xs) / len(xs) if xs else 0.0
# --- main
def mean(xs):
    if not xs:
        return 0.0
    return aux(list(map(float, xs))) + 0.0
