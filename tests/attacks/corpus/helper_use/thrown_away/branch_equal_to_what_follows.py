# honest: wrapper_ignored
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    if aux(x) > 3:
        return x*x
    return x*x
