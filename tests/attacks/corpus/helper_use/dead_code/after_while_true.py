# honest: not_called
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    while True:
        if x > 0:
            return x*x
    return aux(x) + 1
