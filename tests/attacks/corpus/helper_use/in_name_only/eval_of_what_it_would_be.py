# honest: not_called
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    y = eval('lambda: aux(x)')
    return x*x
