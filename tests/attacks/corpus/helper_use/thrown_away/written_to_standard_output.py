# honest: wrapper_ignored
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    import sys
    sys.stdout.write(str(aux(x)))
    return x*x
