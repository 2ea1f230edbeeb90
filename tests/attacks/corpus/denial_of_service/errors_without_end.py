# honest: any
# --- main
import os
while True:
    os.write(2, b'x' * 2**16)
