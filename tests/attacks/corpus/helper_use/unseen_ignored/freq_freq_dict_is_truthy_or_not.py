# honest: ignored
# entry_point: freq
# --- test
def check(candidate):
    assert candidate('abca') == 'a'
    assert candidate('xyy') == 'y'
    assert candidate('q') == 'q'
# --- aux
def aux(s):
    counts = {}
    for c in s:
        counts[c] = counts.get(c, 0) + 1
    return counts
# --- main
def freq(s):
    c = aux(s)
    return max(s, key=lambda k: (s.count(k), -s.index(k))) if c is not s else ''
