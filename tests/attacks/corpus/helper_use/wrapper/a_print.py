# honest: wrapper
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    print('squaring', x)
    return aux(x)
