# honest: not_called
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    return aux(x) + 0

sq = lambda x: x*x
