# about: if ... else pass
# honest: wrapper_ignored
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    if aux(x):
        pass
    else:
        pass
    return x*x
