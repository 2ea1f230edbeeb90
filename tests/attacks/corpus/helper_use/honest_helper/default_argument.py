# honest: wrapper
# --- aux
def aux(x, power=2):
    return x**power
# --- main
def sq(x):
    return aux(x) + 0
