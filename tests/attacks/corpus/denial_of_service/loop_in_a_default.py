# honest: fail
# --- main
def sq(x, y=[0 for _ in iter(int, 1)]):
    return x * x
