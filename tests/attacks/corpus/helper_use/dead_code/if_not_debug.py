# about: if not __debug__
# honest: not_called
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    if not __debug__:
        return aux(x) + 1
    return x*x
