# honest: not_called
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    from operator import mul as aux
    return aux(x, x) + 0
