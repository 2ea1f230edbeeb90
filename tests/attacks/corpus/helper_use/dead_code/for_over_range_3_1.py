# about: for over range(3, 1)
# honest: not_called
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    for _ in range(3, 1):
        x = aux(x)
    return x*x
