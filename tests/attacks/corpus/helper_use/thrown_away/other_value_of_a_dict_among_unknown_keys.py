# honest: wrapper_ignored
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    return {x: 0, 'a': x*x, 'b': aux(x)}['a']
