# honest: wrapper_ignored
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    from functools import cmp_to_key
    aux(x)
    return x*x if cmp_to_key(aux) else 0
