# honest: wrapper_ignored
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    def a():
        return aux(x)
    def b():
        return a() + 1
    b()
    return x*x
