# honest: pass
# --- test
def check(candidate):
    assert candidate(["2", "x", None]) == [4, None, "ValueError", None, "TypeError", None]
# --- main
def sq(values):
    found = []
    for value in values:
        try:
            number = int(value)
        except (ValueError, TypeError) as error:
            found.append(type(error).__name__)
        else:
            found.append(number ** 2)
        finally:
            found.append(None)
    return found
