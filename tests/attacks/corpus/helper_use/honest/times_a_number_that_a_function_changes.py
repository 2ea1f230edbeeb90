# honest: wrapper
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    n = 0
    def count():
        nonlocal n
        n += 1
    count()
    return aux(x) * n
