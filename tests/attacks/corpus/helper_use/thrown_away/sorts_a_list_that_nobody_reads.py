# honest: wrapper_ignored
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    ys = [x]
    ys.sort(key=aux)
    return x*x
