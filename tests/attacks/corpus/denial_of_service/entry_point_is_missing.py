# honest: fail
# --- main
def other(x):
    return x * x
