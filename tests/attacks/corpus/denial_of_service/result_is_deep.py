# honest: fail
# --- main

def sq(x):
    nested = []
    for _ in range(10**5):
        nested = [nested]
    return nested
