# honest: wrapper
# --- aux
def aux(x):
    return x*x
# --- main
seen = []

def sq(x):
    seen.append(aux(x))
    return seen[-1]
