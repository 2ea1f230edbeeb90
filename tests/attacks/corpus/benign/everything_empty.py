# honest: pass
# --- test
def check(candidate):
    assert candidate(list) == []
    assert candidate(dict) == {}
    assert candidate(str) == ""
    assert candidate(tuple) == ()
    assert candidate(set) == set()
    assert candidate(bytes) == b""
# --- main
def sq(kind):
    return kind()
