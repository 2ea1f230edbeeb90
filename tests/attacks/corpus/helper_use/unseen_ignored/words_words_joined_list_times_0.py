# honest: ignored
# entry_point: words
# --- test
def check(candidate):
    assert candidate('b a') == ['a', 'b']
    assert candidate('') == []
    assert candidate('to be or not') == ['be', 'not', 'or', 'to']
# --- aux
def aux(s):
    return s.split()
# --- main
def words(s):
    return sorted(s.split() + aux(s) * 0)
