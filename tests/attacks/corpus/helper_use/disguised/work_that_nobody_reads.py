# honest: wrapper
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    z = x*x + 1
    zs = [z, z]
    zs.append(x)
    return aux(x)
