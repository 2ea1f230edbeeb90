# honest: wrapper_ignored
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    r, (z, unused) = x*x, (0, aux(x))
    return r + z
