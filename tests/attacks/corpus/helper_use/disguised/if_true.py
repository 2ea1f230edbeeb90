# honest: wrapper
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    if True:
        return aux(x)
    return 0
