# honest: pass
# --- main
list = sum = max = None
def sq(x):
    id = x
    return id*id
