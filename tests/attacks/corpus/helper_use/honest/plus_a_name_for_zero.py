# honest: wrapper
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    z = 0
    return aux(x) + z
