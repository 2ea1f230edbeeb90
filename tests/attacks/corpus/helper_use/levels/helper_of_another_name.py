# honest: no_helper
# --- aux
def aux2(x):
    return x*x
# --- main
def sq(x):
    return x*x
