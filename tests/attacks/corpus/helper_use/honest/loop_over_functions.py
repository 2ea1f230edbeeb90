# honest: wrapper
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    y = 0
    for f in (aux, int):
        y += f(x)
    return y - x
