# honest: wrapper_ignored
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    for r, _ in [(x*x, aux(x))]:
        return r
