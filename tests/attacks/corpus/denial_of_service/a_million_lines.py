# honest: any
# --- main
@1000000 TIMES 'x = 0\n'@def sq(x):
    return x * x
