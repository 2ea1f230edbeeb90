# honest: wrapper_ignored
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    try:
        y = aux(x)
        y = x*x
    except ValueError:
        pass
    return y
