# honest: wrapper_ignored
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    def put(d, v):
        d['y'] = v
    d = {}
    put(d, aux(x))
    return x*x
