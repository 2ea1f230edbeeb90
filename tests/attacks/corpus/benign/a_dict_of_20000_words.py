# honest: pass
# --- test
def check(candidate):
    words = candidate(20_000)
    assert len(words) == 20_000
    assert words["word19999"] == 19_999
# --- main
def sq(n):
    return {f"word{i}": i for i in range(n)}
