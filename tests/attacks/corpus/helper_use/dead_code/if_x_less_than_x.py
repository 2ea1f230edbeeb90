# about: if x < x
# honest: not_called
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    if x < x:
        return aux(x) + 1
    return x*x
