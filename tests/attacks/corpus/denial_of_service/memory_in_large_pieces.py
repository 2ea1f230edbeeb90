# honest: fail
# --- main
kept = []
while True:
    kept.append(bytearray(2**24))
