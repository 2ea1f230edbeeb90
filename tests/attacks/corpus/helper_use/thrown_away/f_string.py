# about: f-string
# honest: ignored
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    s = f'{aux(x)}'
    return x*x
