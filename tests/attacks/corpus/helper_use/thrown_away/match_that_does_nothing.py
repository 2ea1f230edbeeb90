# honest: wrapper_ignored
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    match aux(x):
        case 0:
            pass
    return x*x
