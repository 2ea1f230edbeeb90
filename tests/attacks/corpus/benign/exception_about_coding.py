# honest: pass
# --- test
def check(candidate):
    try:
        candidate(2)
    except UnicodeDecodeError as e:
        assert (e.encoding, e.object, e.start, e.end) == ("utf-8", b"a\xff", 1, 2)
        assert str(e).startswith("'utf-8' codec can't decode byte 0xff in position 1")
    else:
        assert False
# --- main
def sq(x):
    return b'a\xff'.decode()
