# honest: not_called
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    if x == x:
        return x*x
    return aux(x) + 1
