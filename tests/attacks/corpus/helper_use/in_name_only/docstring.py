# honest: not_called
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    '''Uses y = aux(x).'''
    return x*x
