# honest: pass
# --- test
def check(candidate):
    d, s = {"a": 1}, {1, 2}
    assert candidate(d, s) == 2
    assert d == {"a": 1, "squares": [1, 4]}
    assert s == set()
# --- main
def sq(d, s):
    d["squares"] = [n * n for n in sorted(s)]
    s.clear()
    return len(d)
