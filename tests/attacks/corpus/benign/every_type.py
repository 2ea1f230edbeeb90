# honest: pass
# --- test
import collections, decimal, fractions

def check(candidate):
    values = [None, True, 1, 2.5, 1j, 's', b'b', bytearray(b'c'), (1,), {1: (2,)}, {3}, frozenset({4}), range(5), ..., fractions.Fraction(1, 3), decimal.Decimal('0.10'), collections.deque([1], 3)]
    assert candidate(values) == values
# --- main
def sq(x):
    return x
