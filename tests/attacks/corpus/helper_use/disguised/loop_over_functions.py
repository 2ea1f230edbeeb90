# honest: wrapper
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    for f in (aux, abs):
        return f(x)
