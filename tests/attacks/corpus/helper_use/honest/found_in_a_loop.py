# honest: wrapper
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    for v in [x]:
        if v == x:
            y = aux(v)
            break
        y = 0
    else:
        y = 0
    return y + 0
