# honest: wrapper_ignored
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    while True:
        y = aux(x)
        if x > -99:
            break
    y = x*x
    return y
