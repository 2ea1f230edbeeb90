# honest: not_called
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    for v in [x]:
        break
        x = aux(v)
    return x*x
