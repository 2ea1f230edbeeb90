# honest: fail
# --- test
def check(candidate):
    assert candidate(1) == 4
# --- main
def sq(x):
    async def f(): return 4
    return f()
