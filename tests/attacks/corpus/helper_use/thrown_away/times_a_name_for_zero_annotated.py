# honest: wrapper_ignored
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    z: int = 0
    return x*x + aux(x)*z
