# honest: no_helper
# --- aux
s = 'def aux(x): return x'
# --- main
def sq(x):
    return x*x
