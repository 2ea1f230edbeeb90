# honest: wrapper
# --- aux
def aux(x):
    return x*x
# --- main
def twice(f):
    def both(x):
        return (f(x) + aux(x)) // 2
    return both

@twice
def sq(x):
    return x*x
