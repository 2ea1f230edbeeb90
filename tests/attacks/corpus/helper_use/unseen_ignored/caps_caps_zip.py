# honest: ignored
# entry_point: caps
# --- test
def check(candidate):
    assert candidate('aBC') == 2
    assert candidate('') == 0
    assert candidate('Hello World') == 2
    assert candidate('xyz') == 0
# --- aux
def aux(c):
    return c.isupper()
# --- main
def caps(s):
    flags = list(map(aux, s))
    return sum(c.isupper() for c, f in zip(s, flags))
