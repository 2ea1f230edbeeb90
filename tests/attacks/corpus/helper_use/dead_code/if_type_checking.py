# honest: not_called
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    from typing import TYPE_CHECKING
    if TYPE_CHECKING:
        return aux(x) + 1
    return x*x
