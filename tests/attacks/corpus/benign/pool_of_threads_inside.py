# honest: pass
# --- test
def check(candidate):
    assert candidate([1, 2, 3, 4]) == [1, 4, 9, 16]
# --- main
from concurrent.futures import ThreadPoolExecutor

def sq(values):
    with ThreadPoolExecutor(3) as pool:
        return list(pool.map(lambda v: v * v, values))
