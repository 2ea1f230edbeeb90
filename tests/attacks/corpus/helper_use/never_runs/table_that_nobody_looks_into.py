# honest: not_called
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    table = {'square': aux}
    return x*x if len(table) else 0
