# honest: wrapper
# --- aux
def aux(x, /, *rest):
    return x*x
# --- main
def sq(x):
    return aux(x) + 0
