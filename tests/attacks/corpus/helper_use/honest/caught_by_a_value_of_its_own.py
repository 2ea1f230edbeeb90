# honest: wrapper
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    try:
        y = aux(x)
    except ValueError:
        y = 0
    return y + 0
