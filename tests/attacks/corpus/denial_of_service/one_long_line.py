# honest: any
# --- main
x = [@1000000 TIMES '0,'@]
def sq(x):
    return x * x
