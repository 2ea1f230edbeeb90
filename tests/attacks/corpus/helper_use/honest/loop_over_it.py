# honest: wrapper
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    for y in [aux(x)]:
        return y + 0
