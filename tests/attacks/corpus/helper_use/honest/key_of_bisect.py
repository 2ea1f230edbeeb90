# honest: wrapper_ignored
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    from bisect import bisect
    return bisect([x], x*x, key=aux) * x*x
