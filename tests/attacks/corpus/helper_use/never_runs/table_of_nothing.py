# honest: not_called
# --- aux
def aux(x):
    return x*x
# --- main
T = [aux(i) for i in range(9) if i > 9]

def sq(x):
    return x*x + len(T)
