# honest: used
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
    best = ''
    n = 0
    for k, v in aux(s).items():
        if v > n:
            best, n = k, v
    return best
