# honest: wrapper
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    from functools import lru_cache
    return lru_cache(None)(aux)(x) + 0
