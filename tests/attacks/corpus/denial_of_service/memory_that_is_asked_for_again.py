# honest: fail
# --- main

def sq(x):
    kept = []
    while True:
        try:
            kept.append(bytearray(2**20))
        except MemoryError:
            pass
