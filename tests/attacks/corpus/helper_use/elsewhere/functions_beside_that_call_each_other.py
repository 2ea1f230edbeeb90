# honest: not_called
# --- aux
def aux(x):
    return x*x
# --- main
def a(x):
    return b(x)

def b(x):
    return a(x) + aux(x)

def sq(x):
    return x*x
