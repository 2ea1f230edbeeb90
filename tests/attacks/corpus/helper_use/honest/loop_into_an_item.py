# honest: wrapper
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    d = {}
    for d['y'] in (aux(x),):
        pass
    return d['y'] + 0
