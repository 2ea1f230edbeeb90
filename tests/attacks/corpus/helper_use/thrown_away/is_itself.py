# honest: wrapper_ignored
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    y = aux(x)
    if y is y:
        return x*x
    return 0
