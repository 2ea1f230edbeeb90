# honest: not_called
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    return dict(aux=x*x)['aux']
