# honest: not_called
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    match {'a': 1}:
        case {**aux}:
            return aux(x) if x is None else x*x
