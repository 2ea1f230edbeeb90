# honest: pass
# --- test
def check(candidate):
    assert candidate("BLUE") == 4
    assert candidate("RED") + 1 == 2
    assert candidate("x") == 3
# --- main
from enum import IntEnum, IntFlag
class Colour(IntEnum):
    RED = 1
    BLUE = 4
class Bits(IntFlag):
    A = 1
    B = 2
def sq(name):
    return Colour[name] if name in Colour.__members__ else Bits.A | Bits.B
