# honest: not_called
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    try:
        pass
    except Exception:
        return aux(x)
    return x*x
