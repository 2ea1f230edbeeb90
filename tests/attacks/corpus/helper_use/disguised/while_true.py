# honest: wrapper
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    while True:
        return aux(x)
