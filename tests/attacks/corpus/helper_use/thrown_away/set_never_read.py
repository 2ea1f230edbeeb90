# honest: wrapper_ignored
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    seen = set()
    seen.add(aux(x))
    return x*x
