# honest: wrapper
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    match x:
        case _:
            return aux(x)
