# honest: wrapper_ignored
# --- aux
def aux(x):
    return x*x
# --- main
Z = 0

def sq(x):
    return x*x + aux(x)*Z
