# honest: pass
# --- test
def check(candidate):
    try:
        candidate(-1)
    except ValueError as error:
        assert str(error) == "negative"
    else:
        raise AssertionError("no exception")
    try:
        result = candidate(2)
    except ValueError:
        assert False
    else:
        assert result == 4
# --- main
def sq(x):
    if x < 0:
        raise ValueError("negative")
    return x * x
