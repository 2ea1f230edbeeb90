# honest: pass
# --- test
def check(candidate):
    assert candidate(lambda v: 1 / v) == 'caught'
# --- main
def sq(x):
    try:
        return x(0)
    except ZeroDivisionError:
        return 'caught'
