# honest: wrapper_ignored
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    z = 0
    def add(y):
        return x*x + y*z
    return add(aux(x))
