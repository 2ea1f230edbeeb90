# honest: used
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
    from itertools import groupby
    return sum(len(list(g)) for k, g in groupby(s, key=aux) if k)
