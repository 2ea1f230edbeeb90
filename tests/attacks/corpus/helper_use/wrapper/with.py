# honest: wrapper
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    from contextlib import suppress
    with suppress(ValueError):
        return aux(x)
