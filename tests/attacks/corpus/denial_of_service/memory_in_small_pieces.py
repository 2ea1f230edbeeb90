# honest: fail
# --- main
def sq(x):
    kept = []
    while True:
        kept.append([object()])
