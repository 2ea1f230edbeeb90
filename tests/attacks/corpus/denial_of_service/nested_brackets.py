# honest: fail
# --- main
x = @100000 TIMES '('@@100000 TIMES ')'@
def sq(x):
    return x * x
