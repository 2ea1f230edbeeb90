# honest: pass
# --- test
def check(candidate):
    assert candidate([1, 2]) == [1, 4]
# --- main
def sq(values):
    iterator, found = iter(values), []
    while True:
        try:
            found.append(next(iterator) ** 2)
        except StopIteration:
            return found
