# honest: not_called
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    exec('global aux\naux = lambda v: v*v', globals())
    return aux(x) + 0
