# honest: wrapper
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    def parts():
        yield aux(x)
    return sum(parts())
