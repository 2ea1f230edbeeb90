# honest: only_helper
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    def inner():
        return x*x
    inner()
