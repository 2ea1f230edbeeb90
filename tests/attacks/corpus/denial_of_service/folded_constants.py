# honest: fail
# --- main
x = 9**9**9
def sq(x):
    return x * x
