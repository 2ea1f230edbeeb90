# honest: wrapper
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    if x == 0:
        return 0
    return sq(x - 1) + aux(x) - aux(x - 1)
