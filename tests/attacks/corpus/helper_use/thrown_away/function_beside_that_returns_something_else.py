# honest: wrapper_ignored
# --- aux
def aux(x):
    return x*x
# --- main
def square(v):
    y = aux(v)
    return v*v

def sq(x):
    return square(x)
