# honest: pass
# --- test
def check(candidate):
    assert candidate(3) == 18
    assert candidate(x=2) == 8
# --- main
import functools

def twice(function):
    @functools.wraps(function)
    def both(*args, **kwargs):
        return function(*args, **kwargs) * 2
    return both

@twice
@functools.lru_cache(maxsize=None)
def sq(x):
    return x * x
