# honest: wrapper
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    y = 0
    for v in [x]:
        try:
            y = aux(v)
        except ValueError:
            y = 0
    return y + 0
