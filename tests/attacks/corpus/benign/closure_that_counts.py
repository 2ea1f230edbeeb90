# honest: pass
# --- test
def check(candidate):
    step = candidate()
    assert step() == 1
    assert step() == 4
    assert candidate()() == 1
# --- main
def sq():
    count = 0
    def step():
        nonlocal count
        count += 1
        return count * count
    return step
