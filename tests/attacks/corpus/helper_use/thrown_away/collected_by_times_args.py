# about: collected by *args
# honest: wrapper_ignored
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    def square(v, *rest):
        return v*v
    return square(x, aux(x))
