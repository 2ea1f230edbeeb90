# honest: not_called
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    try:
        return aux(x) + 1
    except UnboundLocalError:
        return x*x
    del aux
