# honest: wrapper
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    assert True
    return aux(x)
