# honest: wrapper_ignored
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    y = 0
    y += aux(x)
    return x*x
