# honest: not_called
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    return aux(x) + 1 if x < 0 else x*x
