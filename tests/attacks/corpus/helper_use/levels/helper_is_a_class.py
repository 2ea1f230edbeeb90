# honest: no_helper
# --- aux
class aux:
    pass
# --- main
def sq(x):
    return x*x
