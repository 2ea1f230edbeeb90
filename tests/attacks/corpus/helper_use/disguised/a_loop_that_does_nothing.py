# honest: wrapper
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    total = 0
    for i in range(3):
        total += i
    return aux(x)
