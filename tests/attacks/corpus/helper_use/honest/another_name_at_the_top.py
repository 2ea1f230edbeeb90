# honest: wrapper
# --- aux
def aux(x):
    return x*x
# --- main
square = aux

def sq(x):
    return square(x) + 0
