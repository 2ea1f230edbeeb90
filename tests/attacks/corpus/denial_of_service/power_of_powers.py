# honest: fail
# --- main
x = 10**10**8

def sq(x):
    return globals()['x']
