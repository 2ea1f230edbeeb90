# honest: wrapper
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    one = 1
    return aux(x) * one
