# honest: wrapper
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    for y in [aux(x)]:
        pass
    return y + 0
