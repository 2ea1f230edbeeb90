# about: for over ()
# honest: not_called
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    for _ in ():
        x = aux(x)
    return x*x
