# honest: wrapper
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    f = lambda v: aux(v)
    return f(x)
