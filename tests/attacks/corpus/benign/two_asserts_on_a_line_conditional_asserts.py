# honest: pass
# --- test
def check(candidate):
    assert candidate([1]) == [1]; assert candidate([2]) == [4]
    if candidate([]) == []:
        assert candidate([3]) == [9]
    assert (
        candidate([1, 2])
        == [1, 4]
    )
# --- main
def sq(xs):
    return sorted({x * x for x in xs})
