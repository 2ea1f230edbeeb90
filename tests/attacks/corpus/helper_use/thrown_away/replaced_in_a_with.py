# honest: wrapper_ignored
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    from contextlib import suppress
    with suppress(ValueError):
        y = aux(x)
        y = x*x
    return y
