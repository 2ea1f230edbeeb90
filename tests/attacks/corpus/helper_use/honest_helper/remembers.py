# honest: wrapper
# --- aux
from functools import lru_cache

@lru_cache(maxsize=None)
def aux(x):
    return x*x
# --- main
def sq(x):
    return aux(x) + 0
