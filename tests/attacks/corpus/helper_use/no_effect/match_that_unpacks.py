# honest: wrapper_ignored
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    match x*x, aux(x):
        case r, _:
            return r
