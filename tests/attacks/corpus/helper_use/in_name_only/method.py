# honest: not_called
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    class Box:
        def aux(self, v):
            return v*v
    return Box().aux(x) + 0
