# honest: wrapper
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    a, b = x, aux(x)
    a, b = b, a
    return a + 0
