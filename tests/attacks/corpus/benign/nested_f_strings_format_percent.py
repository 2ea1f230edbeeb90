# about: nested f-strings, format, percent
# honest: pass
# --- test
def check(candidate):
    assert candidate(2.5) == ("   2.5|2.50|a", "002.5", "1,234,567")
# --- main
def sq(x):
    width = 6
    return f"{x!r:>{width}}|{x:.2f}|{'a' if x else 'b'}", "%05.1f" % x, "{0:,}".format(1234567)
