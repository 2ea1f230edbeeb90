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
    n = 0
    for c in s:
        f = aux(c)
        f = c.isupper()
        n += f
    return n
