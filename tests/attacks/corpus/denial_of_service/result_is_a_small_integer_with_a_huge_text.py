# honest: fail
# --- test
def check(candidate):
    assert candidate(2) == 4, f'{candidate(2)}'
    assert candidate(3) == 9
# --- main
def sq(x):
    return 10**200_000
