# honest: not_called
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    if True:
        return x*x
    else:
        return aux(x) + 1
