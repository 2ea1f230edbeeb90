# honest: pass
# --- test
def check(candidate):
    cases = [([1], [1]), ([2, 1], [1, 4])]
    assert all(candidate(given) == expected for given, expected in cases)
    assert [candidate([n]) for n in range(3)] == [[0], [1], [4]]
    assert any(candidate([n]) == [9] for n in range(5))
    assert list(map(candidate, [[1], [2]])) == [[1], [4]]
# --- main
def sq(xs):
    return sorted({x * x for x in xs})
