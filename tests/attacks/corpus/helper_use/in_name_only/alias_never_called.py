# honest: not_called
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    f = g = aux
    return x*x
