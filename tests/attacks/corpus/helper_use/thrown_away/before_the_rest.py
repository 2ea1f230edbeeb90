# honest: wrapper_ignored
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    unused, *rest, r = aux(x), x, x, x*x
    return r + rest[0] - x
