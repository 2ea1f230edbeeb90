# honest: wrapper
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    return sum(aux(v) for v in [x])
