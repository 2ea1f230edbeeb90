# honest: wrapper_ignored
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    for v in [x]:
        if aux(v):
            break
    return x*x
