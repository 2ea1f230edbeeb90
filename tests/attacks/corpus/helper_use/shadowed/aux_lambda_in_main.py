# about: aux = lambda in main
# honest: not_called
# --- aux
def aux(x):
    return x*x
# --- main
aux = lambda x: x*x
def sq(x):
    return aux(x) + 0
