# honest: fail
# --- main
import os

def sq(x):
    os.abort()
