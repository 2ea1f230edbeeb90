# honest: pass
# --- test
def check(candidate):
    assert candidate("a\0b") == "b\0a"
    assert candidate("\ud800x") == "x\ud800"
    assert candidate("né🙂") == "🙂én"
    assert candidate("\u2028\n\r\t\x1b") == "\x1b\t\r\n\u2028"
    assert candidate('"\\') == '\\"'
# --- main
def sq(text):
    return text[::-1]
