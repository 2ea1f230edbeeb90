# honest: fail
# --- main
def sq(x):
    return 9**9**9
