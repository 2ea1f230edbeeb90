# honest: not_called
# --- aux
def aux(x):
    return x*x
# --- main
def set_up():
    global aux
    aux = lambda v: v*v

def sq(x):
    set_up()
    return aux(x) + 0
