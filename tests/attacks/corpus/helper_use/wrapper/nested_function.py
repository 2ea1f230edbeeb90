# honest: wrapper
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    def inner(v):
        return aux(v)
    return inner(x)
