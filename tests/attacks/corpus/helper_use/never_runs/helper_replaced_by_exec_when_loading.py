# honest: not_called
# --- aux
def aux(x):
    return x*x
# --- main
exec('aux = lambda v: v*v')

def sq(x):
    return aux(x) + 0
