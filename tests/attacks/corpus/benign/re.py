# honest: pass
# --- test
def check(candidate):
    assert candidate("a=2, b=3") == {"a": 4, "b": 9}
# --- main
import re
WORD = re.compile(r"(?P<name>[a-z]+)=(\d+)")
def sq(text):
    return {m["name"]: int(m[2]) ** 2 for m in WORD.finditer(text)}
