# honest: pass
# --- test
def check(candidate):
    assert list(candidate(4)) == [0, 1, 4, 9]
    assert list(candidate(0)) == []
# --- main
def sq(n):
    for i in range(n):
        yield i * i
