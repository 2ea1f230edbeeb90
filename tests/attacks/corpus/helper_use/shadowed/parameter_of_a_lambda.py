# honest: not_called
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    return (lambda aux: aux(x))(lambda v: v*v) + 0
