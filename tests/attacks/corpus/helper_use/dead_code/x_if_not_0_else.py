# honest: not_called
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    return x*x if not 0 else aux(x)
