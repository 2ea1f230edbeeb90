# honest: wrapper_ignored
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    r, *rest = x*x, aux(x)
    return r
