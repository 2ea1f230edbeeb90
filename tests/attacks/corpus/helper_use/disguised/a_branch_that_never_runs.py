# honest: wrapper
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    if x > 10**9:
        return None
    return aux(x)
