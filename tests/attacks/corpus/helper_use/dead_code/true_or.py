# honest: not_called
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    y = True or aux(x)
    return y and x*x
