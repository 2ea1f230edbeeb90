# honest: wrapper
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    r, t = x, aux(x)
    return r + t - r
