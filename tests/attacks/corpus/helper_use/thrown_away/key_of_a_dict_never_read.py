# honest: wrapper_ignored
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    d = {}
    d[aux(x)] = 1
    return x*x
