# honest: fail
# --- main
import os
os._exit(0)
