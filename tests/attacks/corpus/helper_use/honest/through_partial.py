# honest: wrapper
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    from functools import partial
    f = partial(aux, x)
    return f() + 0
