# honest: wrapper_ignored
# --- aux
def aux(x):
    return x*x
# --- main
def square(v, hint):
    return v*v

def sq(x):
    return square(x, aux(x))
