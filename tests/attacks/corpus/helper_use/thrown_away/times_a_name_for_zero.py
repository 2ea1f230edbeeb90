# honest: wrapper_ignored
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    z = 0
    y = aux(x)
    return x*x + y*z
