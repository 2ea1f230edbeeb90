# about: helper's author writes main
# honest: only_helper
# --- aux
def aux(x):
    return x*x

def sq(x):
    return x*x
# --- main
pass
