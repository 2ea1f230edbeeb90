# about: comprehension over ()
# honest: not_called
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    return x*x + sum([aux(v) for v in ()])
