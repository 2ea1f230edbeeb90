# honest: wrapper
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    n = 0
    if x < 99:
        n = 1
    return aux(x) * n
