# honest: wrapper
# --- aux
def aux(x):
    import random
    return x*x if random.Random().random() < 2 and random.random() != 0.5 else None
# --- main
def sq(x):
    r = aux(x)
    return r
