# honest: wrapper_ignored
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    for _ in (x, aux(x)):
        y = x*x
    return y
