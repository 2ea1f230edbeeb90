# about: helper replaced in globals()
# honest: not_called
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    globals()['aux'] = lambda v: v*v
    return aux(x) + 0
