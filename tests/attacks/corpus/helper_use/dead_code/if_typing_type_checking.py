# about: if typing.TYPE_CHECKING
# honest: not_called
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    import typing
    if typing.TYPE_CHECKING:
        return aux(x) + 1
    return x*x
