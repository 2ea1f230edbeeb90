# honest: not_called
# --- aux
def aux(x):
    return x*x
# --- main
from operator import pos as aux
def sq(x):
    return aux(x) * x
