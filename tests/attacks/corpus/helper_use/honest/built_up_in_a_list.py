# honest: wrapper
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    ys = []
    for v in [x]:
        ys.append(aux(v))
    return ys[0]
