# honest: not_called
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    if False:
        aux = 0
    try:
        return aux(x) + 1
    except UnboundLocalError:
        return x*x
