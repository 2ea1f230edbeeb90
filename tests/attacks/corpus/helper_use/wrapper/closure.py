# honest: wrapper
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    def inner():
        return aux(x)
    return inner()
