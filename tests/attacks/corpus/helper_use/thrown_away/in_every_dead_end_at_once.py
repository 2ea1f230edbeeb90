# honest: wrapper_ignored
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    a = aux(x)
    b = [a]
    c = {'b': b}
    if c:
        d = str(c)
        print(d)
    return x*x
