# honest: wrapper
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    f = aux
    return f(x)
