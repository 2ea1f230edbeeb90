# honest: not_called
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    if x:
        return x*x
    else:
        return 0
    return aux(x) + 1
