# honest: wrapper
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    assert aux(x) == x*x
    return x*x
