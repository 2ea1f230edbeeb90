# honest: not_called
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    from functools import cmp_to_key
    return sorted([], key=cmp_to_key(aux)) or x*x
