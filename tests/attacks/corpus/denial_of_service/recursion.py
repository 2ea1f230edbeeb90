# honest: fail
# --- main
def sq(x):
    return sq(x + 1)
