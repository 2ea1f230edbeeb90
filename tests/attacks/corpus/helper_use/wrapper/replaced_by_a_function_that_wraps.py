# honest: wrapper
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    return aux(x) + 0

def real(x):
    return aux(x)

sq = real
