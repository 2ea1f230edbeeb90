# honest: wrapper
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    r, (s, t) = x, (0, aux(x))
    return t + s
