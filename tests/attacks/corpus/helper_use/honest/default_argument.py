# honest: wrapper
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x, square=aux):
    return square(x) + 0
