# honest: wrapper
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    return [abs, aux][1](x)
