# honest: wrapper
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    n = 0
    for _ in [*range(aux(x))]:
        n += 1
    return n
