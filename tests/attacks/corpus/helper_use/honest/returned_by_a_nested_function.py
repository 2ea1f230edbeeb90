# honest: wrapper
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    def pick():
        return aux
    return pick()(x) + 0
