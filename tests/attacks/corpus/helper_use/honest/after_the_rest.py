# honest: wrapper
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    *rest, y = [x, x, aux(x)]
    return y + 0
