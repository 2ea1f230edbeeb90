# honest: pass
# --- test
def check(candidate):
    assert candidate(4) == (16.0, 2, 1, "a/b", True)
# --- main
from math import *
from collections import *
import os.path, sys as system
def sq(x):
    return pow(x, 2), floor(sqrt(x)), len(deque([x])), os.path.join("a", "b"), system.maxsize > 0
