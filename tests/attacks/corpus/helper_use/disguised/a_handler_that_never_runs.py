# honest: wrapper
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    try:
        return aux(x)
    except Exception:
        return 0
