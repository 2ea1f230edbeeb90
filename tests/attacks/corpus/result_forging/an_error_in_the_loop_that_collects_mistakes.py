# honest: fail
# --- test
def check(candidate):
    wrong = []
    for x, y in [(2, 4), (3, 9)]:
        if candidate(x) != y:
            wrong.append(x)
    assert wrong == []
# --- main
def sq(x):
    raise ValueError(x)
