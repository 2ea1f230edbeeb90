# honest: wrapper
# --- aux
aux = lambda x: x*x
# --- main
def sq(x):
    return aux(x) + 0
