# honest: not_called
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    fs = {'aux': aux}
    return x*x
