# honest: wrapper
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    d = {}
    r, d['y'] = x, aux(x)
    return d['y'] + 0
