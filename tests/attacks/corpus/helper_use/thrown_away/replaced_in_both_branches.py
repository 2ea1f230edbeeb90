# honest: wrapper_ignored
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    y = aux(x)
    if x > 2:
        y = x*x
    else:
        y = x**2
    return y
