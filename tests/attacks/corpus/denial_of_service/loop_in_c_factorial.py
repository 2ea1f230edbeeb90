# honest: fail
# --- main
import math

def sq(x):
    return math.factorial(10**7) % 7 + 10**9
