# about: if bool()
# honest: not_called
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    if bool():
        return aux(x) + 1
    return x*x
