# honest: wrapper
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    for v, y in [(x, aux(x))]:
        return v + y - v
