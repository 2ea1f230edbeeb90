# honest: fail
# --- main
print('x' * 10**7)

def sq(x):
    print('y' * 10**7)
