# honest: wrapper_ignored
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    y = x*x
    if x > 99:
        y = aux(x)
        return x*x
    else:
        aux(x)
    return y
