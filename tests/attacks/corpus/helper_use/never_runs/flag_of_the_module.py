# honest: not_called
# --- aux
def aux(x):
    return x*x
# --- main
DEBUG = False

def sq(x):
    if DEBUG:
        return aux(x) + 1
    return x*x
