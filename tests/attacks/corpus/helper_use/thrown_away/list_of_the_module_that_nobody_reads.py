# honest: wrapper_ignored
# --- aux
def aux(x):
    return x*x
# --- main
log = []

def sq(x):
    log.append(aux(x))
    return x*x
