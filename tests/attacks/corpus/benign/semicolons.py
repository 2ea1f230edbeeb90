# honest: pass
# --- main
import math; N = 2
def sq(x): y = x; z = y * x; return z
