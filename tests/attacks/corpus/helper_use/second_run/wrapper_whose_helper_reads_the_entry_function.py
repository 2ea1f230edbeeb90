# honest: wrapper
# --- aux
def aux(x):
    return x*x if globals()['sq'].__code__.co_varnames == ('x', 'r') else None
# --- main
def sq(x):
    r = aux(x)
    return r
