# honest: wrapper_ignored
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    def ignore(v):
        pass
    ignore(aux(x))
    return x*x
