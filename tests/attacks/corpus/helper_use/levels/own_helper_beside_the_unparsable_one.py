# honest: unparsable
# --- aux
def aux(x):
    return (
# --- main
def aux(x):
    return x*x

def sq(x):
    return aux(x) + 0
