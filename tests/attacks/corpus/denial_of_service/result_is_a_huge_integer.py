# honest: fail
# --- main
def sq(x):
    return 1 << 10**9
