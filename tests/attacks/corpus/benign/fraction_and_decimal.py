# honest: pass
# --- test
def check(candidate):
    from decimal import Decimal
    from fractions import Fraction
    assert candidate(3)[0] == Fraction(1, 9)
    assert candidate(3)[1] == Decimal("0.333333")
    assert str(candidate(8)[1]) == "0.125"
    assert candidate(2)[0] == 0.25
# --- main
from decimal import Decimal, localcontext
from fractions import Fraction
def sq(n):
    with localcontext() as context:
        context.prec = 6
        return Fraction(1, n) ** 2, Decimal(1) / Decimal(n)
