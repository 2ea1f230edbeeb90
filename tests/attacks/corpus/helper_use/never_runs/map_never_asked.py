# honest: not_called
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    m = map(aux, [x])
    return x*x if m else 0
