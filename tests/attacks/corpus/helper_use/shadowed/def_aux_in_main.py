# honest: not_called
# --- aux
def aux(x):
    return x*x
# --- main
def aux(x):
    return x*x

def sq(x):
    return aux(x) + 0
