# honest: fail
# --- main
import ctypes

def sq(x):
    return ctypes.string_at(0)
