# honest: pass
# --- test
def check(candidate):
    assert candidate([1, 2], lambda v: v * v) == [1, 4]
    assert candidate([1, 2, 3], str, lambda v: v > 1) == ["2", "3"]
    def negative(v):
        return -v
    assert candidate([1], key=negative) == [-1]
# --- main
def sq(values, key, keep=None):
    return [key(v) for v in values if keep is None or keep(v)]
