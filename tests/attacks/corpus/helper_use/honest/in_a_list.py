# honest: wrapper
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    return [aux(x)][0]
