# honest: pass
# --- test
import asyncio

def check(candidate):
    assert asyncio.run(candidate(3)) == 9
# --- main
def sq(x):
    async def f():
        return x * x
    return f()
