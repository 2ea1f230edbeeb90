# honest: not_called
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    return [aux(x) for aux in [lambda v: v*v]][0] + 0
