# honest: unsolved
# --- aux
def aux(x):
    return x*x
# --- main
async def sq(x):
    return x*x
