# honest: wrapper
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    def shift(v):
        return v + 1
    return shift(aux(x)) - 1
