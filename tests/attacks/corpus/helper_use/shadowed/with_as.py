# about: with ... as
# honest: not_called
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    from contextlib import nullcontext
    with nullcontext(lambda v: v*v) as aux:
        return aux(x) + 0
