# honest: not_called
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    y = x*x
    while y < 0:
        y = aux(y)
    return y
