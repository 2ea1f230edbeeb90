# honest: pass
# --- test
def check(candidate):
    assert list(candidate([1, 2])) == [1, 4]
    assert tuple(zip(candidate([1, 2]), "ab")) == ((1, "a"), (4, "b"))
# --- main
def sq(values):
    return map(lambda v: v * v, values)
