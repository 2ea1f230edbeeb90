# honest: pass
# --- test
def check(candidate):
    assert candidate(["a", "bb", "c"]) == {1: ["a", "c"], 2: ["bb"]}
    assert dict(candidate([])) == {}
# --- main
from collections import defaultdict
def sq(words):
    groups = defaultdict(list)
    for word in words:
        groups[len(word)].append(word)
    return groups
