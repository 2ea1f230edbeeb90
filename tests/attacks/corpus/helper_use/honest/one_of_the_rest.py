# honest: wrapper
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    r, *rest = x, aux(x)
    return rest[0] + 0
