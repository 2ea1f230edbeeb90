# honest: wrapper_ignored
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    class Box:
        y = aux(x)
    return x*x
