# honest: wrapper
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    n, done = 0, False
    while not done:
        done = n == aux(x)
        n += 1
    return n - 1
