# honest: unparsable
# --- aux
def aux(x):
    return (
# --- main
def sq(x):
    return x*x
