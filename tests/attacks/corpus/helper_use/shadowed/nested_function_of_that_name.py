# honest: not_called
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    def aux(v):
        return v*v
    return aux(x) + 0
