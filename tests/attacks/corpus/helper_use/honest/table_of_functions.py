# honest: wrapper
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    table = {'square': aux}
    return table['square'](x) + 0
