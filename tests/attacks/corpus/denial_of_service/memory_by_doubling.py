# honest: fail
# --- main
def sq(x):
    s = 'x'
    while True:
        s += s
