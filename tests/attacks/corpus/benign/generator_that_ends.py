# honest: pass
# --- test
def check(candidate):
    assert next(candidate(1), 'over') == 'over'
# --- main
def sq(x):
    return
    yield
