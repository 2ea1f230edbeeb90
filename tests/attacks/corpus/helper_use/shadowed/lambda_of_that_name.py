# honest: not_called
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    aux = lambda v: v*v
    return aux(x) + 0
