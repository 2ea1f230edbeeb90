# about: text of an f-string
# honest: not_called
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    s = f'aux(x) of {x}'
    return x*x
