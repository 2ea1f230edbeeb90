# honest: wrapper
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    from functools import lru_cache
    cached = lru_cache(None)(aux)
    return cached(x)
