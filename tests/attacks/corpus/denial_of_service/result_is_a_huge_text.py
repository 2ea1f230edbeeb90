# honest: fail
# --- main
def sq(x):
    return 'x' * 10**8
