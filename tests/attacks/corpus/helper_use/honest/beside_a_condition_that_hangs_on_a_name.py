# honest: wrapper
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    s = 'text'
    y = aux(x)
    return y if s else 0
