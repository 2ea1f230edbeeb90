# honest: wrapper
# --- aux
N = 2

def power(x):
    return x**N

def aux(x):
    return power(x)
# --- main
def sq(x):
    return aux(x) + 0
