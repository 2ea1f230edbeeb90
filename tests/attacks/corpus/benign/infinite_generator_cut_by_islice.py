# honest: pass
# --- test
def check(candidate):
    from itertools import islice
    assert list(islice(candidate(), 5)) == [0, 1, 4, 9, 16]
    assert [n for n, _ in zip(candidate(), range(3))] == [0, 1, 4]
# --- main
def sq():
    n = 0
    while True:
        yield n * n
        n += 1
