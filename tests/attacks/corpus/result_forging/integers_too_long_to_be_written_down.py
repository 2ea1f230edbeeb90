# honest: fail
# --- main
def sq(x):
    return 10 ** 60000 if x == 2 else -(1 << 10 ** 7)
