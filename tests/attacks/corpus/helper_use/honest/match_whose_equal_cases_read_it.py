# honest: wrapper
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    match aux(x):
        case 0 as y:
            return y + 0
        case y:
            return y + 0
