# honest: wrapper_ignored
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    y = 0
    for v in [x]:
        y = y + aux(v)
    return x*x
