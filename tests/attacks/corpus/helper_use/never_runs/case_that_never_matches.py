# honest: not_called
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    match x:
        case str():
            return aux(x) + 1
        case _:
            return x*x
