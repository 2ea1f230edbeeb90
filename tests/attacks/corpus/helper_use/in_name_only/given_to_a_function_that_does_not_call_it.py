# honest: not_called
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    def ignore(f):
        pass
    ignore(aux)
    return x*x
