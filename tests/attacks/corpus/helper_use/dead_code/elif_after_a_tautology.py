# honest: not_called
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    if x or 1:
        return x*x
    elif aux(x):
        return aux(x) + 1
