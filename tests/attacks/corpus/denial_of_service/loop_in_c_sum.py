# honest: fail
# --- main
def sq(x):
    return sum(range(10**18))
