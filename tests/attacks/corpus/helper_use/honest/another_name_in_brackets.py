# honest: wrapper
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    if (f := aux) and x:
        return f(x) + 0
    return 0
