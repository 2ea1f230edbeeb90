# honest: pass
# --- test
def check(candidate):
    assert candidate("ab") == "abab"
    assert candidate("") == "a"
    assert isinstance(candidate("x"), str)
# --- main
from enum import Enum
class Word(str):
    pass
class Kind(str, Enum):
    A = "a"
def sq(text):
    return Word(text * 2) if text else Kind.A
