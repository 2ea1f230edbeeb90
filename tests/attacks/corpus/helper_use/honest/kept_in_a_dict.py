# honest: wrapper
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    d = {}
    d[x] = aux(x)
    return d[x]
