# honest: no_helper
# --- aux
aux(
# --- main
def sq(x):
    return x*x
