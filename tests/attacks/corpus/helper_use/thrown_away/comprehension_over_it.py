# honest: wrapper_ignored
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    return [x*x for _ in [aux(x)]][0]
