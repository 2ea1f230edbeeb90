# honest: not_called
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    import math as aux
    return int(aux.pow(x, 2))
