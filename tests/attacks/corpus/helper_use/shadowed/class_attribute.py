# honest: not_called
# --- aux
def aux(x):
    return x*x
# --- main
class Box:
    aux = staticmethod(lambda v: v*v)

def sq(x):
    return Box.aux(x) + 0
