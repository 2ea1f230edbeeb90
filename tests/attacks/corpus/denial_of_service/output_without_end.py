# honest: any
# --- main
def sq(x):
    while True:
        print('x' * 10**6)
