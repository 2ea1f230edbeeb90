# honest: not_called
# --- aux
def aux(x):
    return x*x
# --- main
[aux := lambda x: x*x for _ in (0,)]
def sq(x):
    return aux(x) + 0
