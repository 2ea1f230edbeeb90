# honest: pass
# --- test
def check(candidate):
    assert candidate([2]) == [4], "squares"
    assert 0 < candidate([2])[0] <= 4 < 5, f"got {candidate([2])}"
    assert candidate([1]) == candidate([-1]) == [1]
    assert not candidate([])
    assert candidate([2]) != [2]
    assert (candidate([3]) == [9]) is True
# --- main
def sq(xs):
    return sorted({x * x for x in xs})
