# honest: pass
# --- test
def check(candidate):
    nested, depth = candidate(100), 0
    while nested:
        nested, depth = nested[0], depth + 1
    assert depth == 100
# --- main
def sq(n):
    nested = []
    for _ in range(n):
        nested = [nested]
    return nested
