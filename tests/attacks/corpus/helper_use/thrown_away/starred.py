# honest: wrapper_ignored
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    *ys, z = [aux(x), x*x]
    z = x*x
    return z
