# honest: pass
# --- test
def check(candidate):
    assert candidate("aé") == (b"a\xc3\xa9\x00\xff", bytearray(b"a\xc3\xa9"))
    assert candidate("")[1] == b""
# --- main
def sq(text):
    data = text.encode("utf-8")
    return data + bytes([0, 255]), bytearray(data)
