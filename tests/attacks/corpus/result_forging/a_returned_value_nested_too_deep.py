# honest: fail
# --- main

def sq(x):
    value = 0
    for _ in range(200000):
        value = [value] if x == 2 else {"error": value}
    return value
