# honest: wrapper
# entry_point: evens
# --- test
def check(candidate):
    assert list(candidate(5)) == [0, 2, 4]
    assert list(candidate(0)) == []
    assert list(candidate(1)) == [0]
# --- aux
def aux(n):
    for i in range(n):
        if i % 2 == 0:
            yield i
# --- main
def evens(n):
    yield from (v for v in aux(n))
