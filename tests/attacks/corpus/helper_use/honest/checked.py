# honest: wrapper
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    y = aux(x)
    if y is None:
        return 0
    return y
