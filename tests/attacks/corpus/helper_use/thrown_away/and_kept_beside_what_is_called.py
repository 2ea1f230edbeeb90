# honest: wrapper_ignored
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    aux(x)
    fs = [int, aux]
    return fs[0](x*x) + 0
