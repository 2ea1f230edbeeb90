# honest: wrapper
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    n = 0
    while n < aux(x):
        n += 1
    return n
