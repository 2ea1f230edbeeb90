# honest: wrapper
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    f, g = aux, int
    return f(x) + g(0)
