# honest: not_called
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    try:
        return x*x
    except TypeError:
        return 0
    return aux(x) + 1
