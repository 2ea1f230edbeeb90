# honest: wrapper_ignored
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    list(map(aux, [x]))
    return x*x
