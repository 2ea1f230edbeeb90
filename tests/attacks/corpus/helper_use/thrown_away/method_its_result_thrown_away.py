# honest: wrapper_ignored
# --- aux
def aux(x):
    return x*x
# --- main
class Box:
    def __init__(self, v):
        self.v = v

def sq(x):
    Box(aux(x))
    return x*x
