# honest: wrapper
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    def a(v):
        return aux(v)
    def b(v):
        y = a(v)
        return y
    return b(x)
