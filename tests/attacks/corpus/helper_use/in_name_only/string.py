# honest: not_called
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    s = 'aux(x)'
    return x*x
