# honest: fail
# --- test
def check(candidate):
    assert list(candidate(2)) == [4]
    assert sorted(candidate(3)) == [9]
# --- main
def sq(x):
    return range(10**18)
