# honest: wrapper
# --- aux
def aux(x):
    return x*x
# --- main
def square(v):
    return aux(v)

def sq(x):
    return square(x)
