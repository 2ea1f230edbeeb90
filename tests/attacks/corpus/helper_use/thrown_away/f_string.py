# about: f-string
# honest: wrapper_ignored
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    s = f'{aux(x)}'
    return x*x
