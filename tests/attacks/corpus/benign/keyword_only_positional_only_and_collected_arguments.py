# about: keyword-only, positional-only and collected arguments
# honest: pass
# --- test
def check(candidate):
    assert candidate(1, 2) == [1, 2, [], 0, {}]
    assert candidate(1, 2, 3, 4, c=5, d=6) == [1, 2, [3, 4], 5, {"d": 6}]
    arguments = (1, 2)
    assert candidate(*arguments, **{"c": 7}) == [1, 2, [], 7, {}]
# --- main
def sq(a, /, b, *rest, c=0, **named):
    return [a, b, list(rest), c, dict(sorted(named.items()))]
