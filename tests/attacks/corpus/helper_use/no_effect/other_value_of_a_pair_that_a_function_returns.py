# honest: wrapper_ignored
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    def pair():
        return x*x, aux(x)
    r, unused = pair()
    return r
