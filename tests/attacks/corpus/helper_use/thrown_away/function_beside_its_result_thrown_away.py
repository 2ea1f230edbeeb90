# honest: wrapper_ignored
# --- aux
def aux(x):
    return x*x
# --- main
def run(v):
    return aux(v)

def sq(x):
    run(x)
    return x*x
