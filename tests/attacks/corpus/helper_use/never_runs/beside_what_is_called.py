# honest: not_called
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    fs = [int, aux]
    return fs[0](x*x)
