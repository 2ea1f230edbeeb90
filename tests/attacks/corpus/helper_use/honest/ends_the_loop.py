# honest: wrapper
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    y = 0
    for n in range(99):
        if n == aux(x):
            break
        y = n
    return y + 1
