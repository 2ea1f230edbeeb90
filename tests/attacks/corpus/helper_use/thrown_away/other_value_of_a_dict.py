# honest: wrapper_ignored
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    return {'a': x*x, 'b': aux(x)}['a']
