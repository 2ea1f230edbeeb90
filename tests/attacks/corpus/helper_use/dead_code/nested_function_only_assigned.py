# honest: not_called
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    def inner():
        return aux(x)
    f = inner
    return x*x
