# about: if ... pass
# honest: wrapper_ignored
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    y = aux(x)
    if y:
        pass
    return x*x
