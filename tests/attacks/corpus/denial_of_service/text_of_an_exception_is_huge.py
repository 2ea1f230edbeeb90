# honest: fail
# --- main
def sq(x):
    raise ValueError('x' * 10**8)
