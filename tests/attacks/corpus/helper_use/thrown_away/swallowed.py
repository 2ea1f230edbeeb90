# honest: wrapper_ignored
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    try:
        y = aux(x)
    except Exception:
        pass
    return x*x
