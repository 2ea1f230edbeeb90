# honest: wrapper_ignored
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    ignore = lambda v: None
    ignore(aux(x))
    return x*x
