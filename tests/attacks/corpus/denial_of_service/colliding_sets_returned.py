# honest: fail
# --- main
data = [{n * (2**61 - 1) for n in range(2000)}] * 300

def sq(x):
    return data
