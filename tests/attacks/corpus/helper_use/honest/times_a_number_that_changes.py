# honest: wrapper
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    n = 0
    for v in [x]:
        n += 1
    return aux(x) * n
