# honest: wrapper
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    f, g = aux, abs
    return f(x)
