# honest: wrapper_ignored
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    if aux(x) and 0:
        return 0
    return x*x
