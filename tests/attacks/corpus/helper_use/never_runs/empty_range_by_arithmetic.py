# honest: not_called
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    y = x*x
    for v in range(x - x):
        y += aux(v)
    return y
