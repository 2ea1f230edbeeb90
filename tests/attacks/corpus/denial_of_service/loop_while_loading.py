# honest: fail
# --- main
while True:
    pass
