# honest: pass
# --- test
def check(candidate):
    import math
    assert math.isnan(candidate("nan"))
    assert candidate("nan") != candidate("nan")
    assert candidate("inf") == math.inf
    assert candidate("-inf") < -1e308
    assert candidate("-0") == 0
    assert math.copysign(1, candidate("-0")) == -1.0
# --- main
def sq(kind):
    return {"nan": float("nan"), "inf": float("inf"), "-inf": -float("inf"), "-0": -0.0}[kind]
