# honest: not_called
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x) -> aux(2):
    return x*x
