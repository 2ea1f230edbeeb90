# honest: wrapper_ignored
# --- aux
def aux(x):
    return x*x
# --- main
sq = lambda x: x*x + 0*aux(x)
