# honest: wrapper
# --- aux
def aux(x):
    return x*x
# --- main
sq = lambda x: aux(x)
