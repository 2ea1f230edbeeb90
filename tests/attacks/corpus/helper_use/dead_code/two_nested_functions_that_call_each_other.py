# honest: not_called
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    def a():
        return b()
    def b():
        return a() + aux(x)
    return x*x
