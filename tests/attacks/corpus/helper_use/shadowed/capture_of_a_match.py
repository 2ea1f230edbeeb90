# honest: not_called
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    match lambda v: v*v:
        case aux:
            return aux(x) + 0
