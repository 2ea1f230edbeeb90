# honest: not_called
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    class aux:
        def __new__(cls, v):
            return v*v
    return aux(x) + 0
