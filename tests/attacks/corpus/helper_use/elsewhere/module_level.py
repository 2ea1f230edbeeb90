# honest: not_called
# --- aux
def aux(x):
    return x*x
# --- main
y = aux(2)

def sq(x):
    return x*x
