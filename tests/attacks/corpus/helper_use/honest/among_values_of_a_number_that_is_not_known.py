# honest: wrapper
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    r, y = *[x], aux(x)
    return y + 0
