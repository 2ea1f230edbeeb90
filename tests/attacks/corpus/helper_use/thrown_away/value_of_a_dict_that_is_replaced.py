# honest: wrapper_ignored
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    return {'a': aux(x), 'a': x*x}['a']
