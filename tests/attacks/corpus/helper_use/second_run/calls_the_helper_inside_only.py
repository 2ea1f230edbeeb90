# honest: used
# earns: not_called
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    return aux.__wrapped__(x) + 0
