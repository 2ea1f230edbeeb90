# honest: not_called
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    try:
        y = x*x
    except ZeroDivisionError:
        y = aux(x) + 1
    return y
