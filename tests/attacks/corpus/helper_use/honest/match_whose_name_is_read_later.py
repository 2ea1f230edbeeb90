# honest: wrapper
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    match aux(x):
        case y:
            pass
    return y + 0
