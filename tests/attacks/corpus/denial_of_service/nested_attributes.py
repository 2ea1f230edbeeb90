# honest: fail
# --- main
x = a@100000 TIMES '.a'@
def sq(x):
    return x * x
