# honest: fail
# --- main
def sq(x):
    return sorted(range(10**9), key=lambda n: -n)[0] - 1
