# honest: fail
# --- main
def sq(x):
    while True:
        pass
