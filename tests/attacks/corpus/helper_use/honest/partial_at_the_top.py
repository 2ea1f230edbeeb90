# honest: wrapper
# --- aux
def aux(x):
    return x*x
# --- main
from functools import partial
square = partial(aux)

def sq(x):
    return square(x) + 0
