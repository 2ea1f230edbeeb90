# honest: wrapper
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    if x > 100:
        for i in range(1, 2, 3, 4):
            pass
    return aux(x) + 0
