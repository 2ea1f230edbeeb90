# honest: fail
# --- main
data = {n * (2**61 - 1): n for n in range(4000)}

def sq(x):
    return data
