# honest: fail
# --- main
def sq(x):
    return len({n * (2**61 - 1) for n in range(10**6)})
