# honest: wrapper
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    return True and aux(x)
