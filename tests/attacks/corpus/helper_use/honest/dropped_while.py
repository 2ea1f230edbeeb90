# honest: wrapper_ignored
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    from itertools import dropwhile
    return sum(dropwhile(aux, [x])) + x*x
