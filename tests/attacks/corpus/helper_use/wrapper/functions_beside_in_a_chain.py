# honest: wrapper
# --- aux
def aux(x):
    return x*x
# --- main
def a(v):
    return b(v)

def b(v):
    w = aux(v)
    return w

def sq(x):
    return a(x)
