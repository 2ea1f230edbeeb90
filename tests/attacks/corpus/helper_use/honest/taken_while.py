# honest: wrapper_ignored
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    from itertools import takewhile
    return sum(takewhile(aux, [x])) * x
