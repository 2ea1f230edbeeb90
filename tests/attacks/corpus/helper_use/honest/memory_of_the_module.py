# honest: wrapper
# --- aux
def aux(x):
    return x*x
# --- main
memory = {}

def sq(x):
    if x not in memory:
        memory[x] = aux(x)
    return memory[x]
