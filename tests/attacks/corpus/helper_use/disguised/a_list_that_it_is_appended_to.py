# honest: wrapper
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    fs = []
    fs.append(aux)
    return fs[0](x)
