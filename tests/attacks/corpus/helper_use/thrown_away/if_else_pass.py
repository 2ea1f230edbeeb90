# about: if ... else pass
# honest: ignored
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
