# honest: fail
# --- main
def sq(x):
    return x * x
@1 TIMES '\x00'@
