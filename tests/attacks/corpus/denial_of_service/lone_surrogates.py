# honest: fail
# --- main
def sq(x):
    return x * x
x = '@1 TIMES '\ud800'@'
@1 TIMES '\udfff'@
