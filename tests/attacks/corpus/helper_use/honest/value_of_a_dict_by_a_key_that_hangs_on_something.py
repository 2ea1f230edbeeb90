# honest: wrapper
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    key = 'b' if x < 99 else 'a'
    return {'a': 0, 'b': aux(x)}[key] + 0
