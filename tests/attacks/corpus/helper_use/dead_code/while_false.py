# honest: not_called
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    while False:
        x = aux(x)
    return x*x
