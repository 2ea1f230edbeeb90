# honest: pass
# --- test
def check(candidate):
    assert candidate([1, 2, 3]) == [1, 4, 9]
    assert candidate([]) == []
# --- main
import asyncio

async def square(x):
    await asyncio.sleep(0)
    return x * x

async def squares(values):
    return await asyncio.gather(*(square(v) for v in values))

def sq(values):
    return asyncio.run(squares(values))
