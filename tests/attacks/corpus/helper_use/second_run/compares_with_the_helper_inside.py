# honest: wrapper_ignored
# earns: wrapper
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    return x*x if aux(x) == aux.__wrapped__(x) else None
