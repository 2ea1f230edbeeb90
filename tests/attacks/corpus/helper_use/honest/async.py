# honest: wrapper
# --- aux
def aux(x):
    return x*x
# --- main
import asyncio

async def work(x):
    return aux(x) + 0

def sq(x):
    return asyncio.run(work(x))
