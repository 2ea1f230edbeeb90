# honest: pass
# --- main
def sq(x):
    return 0

def sq(x):
    return x*x
