# honest: wrapper
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    def apply(f, v):
        return f(v)
    return apply(aux, x) + 0
