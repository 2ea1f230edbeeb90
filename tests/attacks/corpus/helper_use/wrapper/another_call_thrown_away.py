# honest: wrapper
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    aux(x + 1)
    return aux(x)
