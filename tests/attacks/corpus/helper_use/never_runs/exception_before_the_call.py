# honest: not_called
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    try:
        y = 1 // 0 + aux(x)
    except ZeroDivisionError:
        y = x*x
    return y
