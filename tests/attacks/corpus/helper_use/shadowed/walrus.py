# honest: not_called
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    return (aux := lambda v: v*v)(x) + aux(x)*0
