# honest: pass
# entry_point: double
# --- test
def check(double):
    assert double(2) == 8
# --- main
def sq(x):
    return x * x

def double(x):
    from __main__ import sq
    return 2 * sq(x)
