# honest: wrapper
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    return {aux(x): x*x}[x*x]
