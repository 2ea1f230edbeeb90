# honest: pass
# entry_point: größe
# --- test
def check(candidate):
    assert candidate(2) == 6
    assert candidate(2, höhe=2) == 12
# --- main
π = 3
def größe(länge, *, höhe=1):
    面積 = länge * höhe
    return 面積 * π
