# honest: pass
# --- test
def check(candidate):
    message = None
    try:
        candidate("a")
    except TypeError as error:
        message = str(error)
    assert message == "an integer is needed"
    try:
        candidate(None)
    except Exception as error:
        assert "integer" in str(error)
# --- main
def sq(x):
    if not isinstance(x, int):
        raise TypeError("an integer is needed")
    return x * x
