# honest: wrapper
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    try:
        y = int('no')
    except ValueError:
        y = aux(x)
    return y + 0
