# honest: not_called
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    def parts():
        yield aux(x) + 1
    ps = parts()
    return x*x if ps else 0
