# honest: any
# --- main
x = ('x' * 4096 * 4096) * 4096
def sq(x):
    return x * x
