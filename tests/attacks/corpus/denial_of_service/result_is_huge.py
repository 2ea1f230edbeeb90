# honest: fail
# --- main
def sq(x):
    return [0] * 10**7
