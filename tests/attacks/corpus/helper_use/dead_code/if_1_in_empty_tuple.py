# about: if 1 in ()
# honest: not_called
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    if 1 in ():
        return aux(x) + 1
    return x*x
