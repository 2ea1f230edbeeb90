# honest: wrapper_ignored
# --- aux
def aux(x):
    return x*x
# --- main
memory = {}

def sq(x):
    memory[x] = aux(x)
    return x*x
