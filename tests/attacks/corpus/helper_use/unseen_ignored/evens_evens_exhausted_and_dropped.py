# honest: wrapper_ignored
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
    list(aux(n))
    return range(0, n, 2)
