# honest: pass
# --- main
print('x' * 10**6)

def sq(x):
    print('y' * 10**6)
    return x * x
