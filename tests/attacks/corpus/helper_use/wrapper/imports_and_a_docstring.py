# honest: wrapper
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    '''Square.'''
    import math
    return aux(x)
