# honest: wrapper_ignored
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    return [v*v for v in [x] if aux(v) or True][0]
