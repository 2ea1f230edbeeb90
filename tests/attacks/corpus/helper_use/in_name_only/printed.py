# honest: not_called
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    print(aux)
    return x*x
