# honest: fail
# --- main
def sq(x):
    a = []
    a.append(a)
    return a
