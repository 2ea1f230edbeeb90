# honest: wrapper
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    def unused(v):
        return v*v
    return aux(x)
