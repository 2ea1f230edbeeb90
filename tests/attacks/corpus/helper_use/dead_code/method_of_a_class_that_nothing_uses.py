# honest: not_called
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    class Unused:
        def run(self):
            return aux(x)
    return x*x
