# honest: not_called
# --- aux
def aux(x):
    return x*x
# --- main
class aux(int):
    def __new__(cls, x):
        return x*x
def sq(x):
    return aux(x) + 0
