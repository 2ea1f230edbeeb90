# honest: fail
# --- main
def sq(x):
    return int(input())
