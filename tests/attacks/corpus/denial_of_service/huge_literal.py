# honest: any
# --- main
x = @1000000 TIMES '9'@
def sq(x):
    return x * x
