# honest: pass
# --- test
def check(candidate):
    raised = False
    try:
        candidate(0)
    except ValueError:
        raised = True
    assert raised
    assert candidate(4) == 0.25
# --- main
def sq(x):
    try:
        return 1 / x
    except ZeroDivisionError as error:
        raise ValueError("zero") from error
