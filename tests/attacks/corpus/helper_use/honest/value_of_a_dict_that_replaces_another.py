# honest: wrapper
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    return {'b': 0, 'b': aux(x)}['b'] + 0
