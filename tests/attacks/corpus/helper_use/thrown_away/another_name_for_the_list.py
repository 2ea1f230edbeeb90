# honest: wrapper_ignored
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    ys = []
    zs = ys
    zs.append(aux(x))
    return x*x
