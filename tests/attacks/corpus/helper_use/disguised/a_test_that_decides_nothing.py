# honest: wrapper
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    if x > 100:
        pass
    return aux(x)
