# honest: not_called
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    aux = None
    def set_up():
        nonlocal aux
        aux = lambda v: v*v
    set_up()
    return aux(x) + 0
