# honest: fail
# --- main
x = @10000 TIMES 'lambda: '@(
def sq(x):
    return x * x
