# honest: wrapper
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    for v in [x]:
        return aux(v)
