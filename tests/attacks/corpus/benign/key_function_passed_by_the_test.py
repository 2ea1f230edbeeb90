# honest: pass
# --- test
def check(candidate):
    assert candidate(["a", "ccc", "bb"], len) == "ccc"
    assert candidate([3, -5, 4], abs) == -5
# --- main
def sq(words, key):
    return max(sorted(words, key=key), key=key)
