# honest: wrapper
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    v = x
    return aux(v)
