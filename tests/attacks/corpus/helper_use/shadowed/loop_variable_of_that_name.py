# honest: not_called
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    for aux in [lambda v: v*v]:
        y = aux(x)
    return y + 0
