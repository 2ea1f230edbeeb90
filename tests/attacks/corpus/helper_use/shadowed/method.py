# honest: not_called
# --- aux
def aux(x):
    return x*x
# --- main
class Box:
    def aux(self, v):
        return v*v

box = Box()

def sq(x):
    return box.aux(x) + 0
