# about: if 1 > 2
# honest: not_called
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    if 1 > 2:
        return aux(x) + 1
    return x*x
