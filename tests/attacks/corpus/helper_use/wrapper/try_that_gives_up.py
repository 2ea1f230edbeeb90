# honest: wrapper
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    try:
        y = aux(x)
    except ValueError:
        return None
    return y
