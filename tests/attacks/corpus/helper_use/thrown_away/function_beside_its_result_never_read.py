# honest: wrapper_ignored
# --- aux
def aux(x):
    return x*x
# --- main
def run(v):
    y = aux(v)
    return y

def sq(x):
    y = run(x)
    return x*x
