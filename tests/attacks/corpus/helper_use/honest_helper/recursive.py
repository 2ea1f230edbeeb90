# honest: wrapper
# --- aux
def aux(x):
    return 0 if x == 0 else aux(x - 1) + 2*x - 1
# --- main
def sq(x):
    return aux(x) + 0
