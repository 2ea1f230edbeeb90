# honest: wrapper_ignored
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    try:
        y = aux(x)
        z = x
        pass
        y = z*z
    except ValueError:
        pass
    return y
