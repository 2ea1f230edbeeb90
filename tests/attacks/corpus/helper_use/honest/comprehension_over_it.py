# honest: wrapper
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    return [y + 0 for y in [aux(x)]][0]
