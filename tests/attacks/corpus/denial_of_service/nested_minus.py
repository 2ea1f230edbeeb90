# honest: fail
# --- main
x = @100000 TIMES '-'@1
def sq(x):
    return x * x
