# honest: fail
# --- test
def check(candidate):
    assert list(candidate(2)) == [0, 1]
    assert list(candidate(3)) == [0, 1, 2]
# --- main
def sq(x):
    yield 0
    while True:
        pass
