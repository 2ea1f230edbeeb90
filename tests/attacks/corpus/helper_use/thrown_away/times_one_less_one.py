# honest: wrapper_ignored
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    return x*x + aux(x)*(1 - 1)
