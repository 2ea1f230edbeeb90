# honest: wrapper_ignored
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    y = aux(x)
    def inner():
        return y
    inner()
    return x*x
