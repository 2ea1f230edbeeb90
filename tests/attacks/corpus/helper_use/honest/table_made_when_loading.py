# honest: wrapper
# --- aux
def aux(x):
    return x*x
# --- main
T = [aux(i) for i in range(9)]

def sq(x):
    return T[x]
