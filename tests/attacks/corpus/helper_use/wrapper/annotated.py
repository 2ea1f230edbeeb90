# honest: wrapper
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    y: int = aux(x)
    return y
