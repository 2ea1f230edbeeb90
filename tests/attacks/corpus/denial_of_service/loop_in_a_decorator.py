# honest: fail
# --- main
@lambda f: [0 for _ in iter(int, 1)]
def sq(x):
    return x * x
