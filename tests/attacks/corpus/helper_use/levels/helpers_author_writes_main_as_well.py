# about: helper's author writes main as well
# honest: not_called
# --- aux
def aux(x):
    return x*x

def sq(x):
    return x*x
# --- main
def sq(x):
    return x*x
