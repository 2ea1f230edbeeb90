# honest: not_called
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    aux, y = (lambda v: v*v), 0
    return aux(x) + y
