# honest: wrapper
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    if x > 2:
        return aux(x)
    return aux(x)
