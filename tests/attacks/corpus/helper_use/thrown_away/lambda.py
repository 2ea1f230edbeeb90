# honest: wrapper_ignored
# --- aux
def aux(x):
    return x*x
# --- main
sq = lambda x: (aux(x), x*x)[1]
