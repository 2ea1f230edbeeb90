# honest: not_called
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    try:
        raise ValueError
    except ValueError as aux:
        return aux(x) if x is None else x*x
