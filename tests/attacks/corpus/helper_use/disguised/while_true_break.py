# honest: wrapper
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    while True:
        y = aux(x)
        break
    return y
