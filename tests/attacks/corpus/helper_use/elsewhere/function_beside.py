# honest: not_called
# --- aux
def aux(x):
    return x*x
# --- main
def other(x):
    return aux(x) + 1

def sq(x):
    return x*x
