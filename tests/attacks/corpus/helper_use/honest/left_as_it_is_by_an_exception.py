# honest: wrapper
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    from contextlib import suppress
    with suppress(ZeroDivisionError):
        y = aux(x)
        z = 1 // 0
        y = z
    return y + 0
