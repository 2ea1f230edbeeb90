# honest: pass
# --- test
def check(candidate):
    assert candidate("aab") == {"a": 2, "b": 1}
    assert candidate("") == {}
    assert candidate("aa")["a"] == 2
# --- main
from collections import Counter
def sq(text):
    return Counter(text)
