# honest: wrapper
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    class Box:
        def square(self, v):
            return aux(v) + 0
    return Box().square(x)
