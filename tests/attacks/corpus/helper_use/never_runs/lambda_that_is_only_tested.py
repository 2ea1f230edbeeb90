# honest: not_called
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    f = lambda: aux(x) + 1
    return x*x if f else 0
