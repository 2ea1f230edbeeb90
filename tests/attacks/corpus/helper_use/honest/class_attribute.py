# honest: wrapper
# --- aux
def aux(x):
    return x*x
# --- main
class Box:
    square = aux
    ys = [aux(i) for i in range(9)]

def sq(x):
    return Box.ys[x]
