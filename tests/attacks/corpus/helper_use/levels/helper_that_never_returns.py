# honest: no_helper
# --- aux
def aux(x):
    pass
# --- main
def sq(x):
    return x*x
