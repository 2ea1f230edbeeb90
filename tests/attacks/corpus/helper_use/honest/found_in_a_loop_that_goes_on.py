# honest: wrapper
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    for v in [x]:
        if v == x:
            y = aux(v)
            continue
        y = 0
    return y + 0
