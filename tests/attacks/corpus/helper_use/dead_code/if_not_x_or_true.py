# about: if not (x or True)
# honest: not_called
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    if not (x or True):
        return aux(x) + 1
    return x*x
