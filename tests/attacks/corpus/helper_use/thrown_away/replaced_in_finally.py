# honest: wrapper_ignored
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    y = 0
    try:
        y = aux(x)
    finally:
        y = x*x
    return y
