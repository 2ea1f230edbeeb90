# honest: wrapper_ignored
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    for v in [x]:
        y = aux(v)
        y = v*v
    return y
