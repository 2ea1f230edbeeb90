# honest: pass
# --- test
def check(candidate):
    for kind, expected in (("value", ValueError), ("key", KeyError), ("zero", ZeroDivisionError),
                           ("index", IndexError), ("text", TypeError)):
        try:
            candidate(kind)
        except expected:
            pass
        else:
            assert False, kind
    assert candidate(1) == 2
# --- main
def sq(kind):
    if kind == "value":
        raise ValueError("no squares here")
    if kind == "key":
        return {}["missing"]
    if kind == "zero":
        return 1 // 0
    if kind == "index":
        return [][0]
    return kind + 1
