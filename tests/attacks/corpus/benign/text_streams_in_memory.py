# honest: pass
# --- test
def check(candidate):
    assert candidate(3) == ["0,1,2", "3"]
# --- main
import contextlib
import io
def sq(n):
    stream = io.StringIO()
    with contextlib.redirect_stdout(stream):
        print(*range(n), sep=",")
    print(n, file=stream)
    return stream.getvalue().splitlines()
