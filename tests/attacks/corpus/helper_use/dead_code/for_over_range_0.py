# about: for over range(0)
# honest: not_called
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    for _ in range(0):
        x = aux(x)
    return x*x
