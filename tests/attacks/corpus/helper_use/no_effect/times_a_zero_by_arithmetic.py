# honest: wrapper_ignored
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    z = x - x
    return x*x + aux(x)*z
