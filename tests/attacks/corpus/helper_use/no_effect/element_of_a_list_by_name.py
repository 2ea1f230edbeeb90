# honest: wrapper_ignored
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    ys = [x*x, aux(x)]
    return ys[0]
