# honest: pass
# --- test
def check(candidate):
    assert candidate([1, 2, 3]) == ([2, 3, 2, 4, 9], {"n": 2, "first": 1})
    assert candidate([5]) == 5
# --- main
def sq(xs):
    first, *rest = xs
    if (n := len(rest)) > 1:
        return [*rest, n, *(x * x for x in rest)], {**{"n": n}, "first": first}
    return first
