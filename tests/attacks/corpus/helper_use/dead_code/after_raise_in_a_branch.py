# honest: not_called
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    if x is None:
        raise ValueError
        aux(x)
    return x*x
