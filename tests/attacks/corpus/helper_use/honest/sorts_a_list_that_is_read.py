# honest: wrapper_ignored
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    xs = [x, 0]
    xs.sort(key=aux)
    return xs[1] * x
