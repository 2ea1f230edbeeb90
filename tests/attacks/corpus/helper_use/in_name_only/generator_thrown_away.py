# honest: not_called
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    (aux(v) for v in [x])
    return x*x
