# honest: pass
# --- test
def check(candidate):
    assert candidate(1) == '\ud801'
# --- main
def sq(x):
    return chr(0xD800 + x)
