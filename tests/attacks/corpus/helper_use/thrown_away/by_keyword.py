# honest: wrapper_ignored
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    def square(v, y=0):
        return v*v
    return square(x, y=aux(x))
