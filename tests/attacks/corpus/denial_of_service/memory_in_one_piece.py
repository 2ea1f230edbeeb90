# honest: fail
# --- main
def sq(x):
    return len(bytearray(2**40))
