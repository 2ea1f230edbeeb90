# honest: wrapper_ignored
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    i = 1
    return (aux(x), x*x)[i]
