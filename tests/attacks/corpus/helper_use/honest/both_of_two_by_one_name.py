# honest: wrapper
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    t = r, y = x, aux(x)
    return t[1] + 0
