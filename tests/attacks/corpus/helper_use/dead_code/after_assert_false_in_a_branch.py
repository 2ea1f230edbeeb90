# honest: not_called
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    if x is None:
        assert False
        aux(x)
    return x*x
