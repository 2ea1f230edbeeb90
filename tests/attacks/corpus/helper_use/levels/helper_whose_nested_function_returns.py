# honest: no_helper
# --- aux
def aux(x):
    def inner():
        return x
    inner()
# --- main
def sq(x):
    return x*x
