# honest: wrapper
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    match [x, aux(x)]:
        case [_, *ys]:
            pass
    return ys[0] + 0
