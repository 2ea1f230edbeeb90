# honest: pass
# --- test
def check(candidate):
    numbers = candidate([3, 1, 2])
    assert next(numbers) == 9
    assert next(numbers) == 1
    assert sorted(candidate([3, 1, 2])) == [1, 4, 9]
    total = 0
    for number in candidate([1, 2]):
        total += number
    assert total == 5
    assert sum(candidate((1, 2, 3))) == 14
    assert 4 in candidate([1, 2])
    assert next(candidate([]), None) is None
# --- main
def sq(values):
    yield from (v * v for v in values)
