# honest: not_called
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    async def work():
        return aux(x) + 1
    c = work()
    c.close()
    return x*x if c else 0
