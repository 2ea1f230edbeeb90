# honest: pass
# --- main
def sq(x):
    assert x > 0, 'positive'
    return x*x
assert sq(2) == 4
