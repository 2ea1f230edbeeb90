# honest: ignored
# --- aux
def aux(x):
    return 7
# --- main
N = []
def sq(x):
    N.append(x)
    assert aux(x) == 7 and len(N) < 3
    return x*x
