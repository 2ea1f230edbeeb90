# honest: not_called
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    y = x*x
    vs = []
    for v in vs:
        y += aux(v)
    return y
