# honest: not_called
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    y = False and aux(x)
    return y or x*x
