# honest: fail
# --- main
x = @100000 TIMES '1+'@a
def sq(x):
    return x * x
