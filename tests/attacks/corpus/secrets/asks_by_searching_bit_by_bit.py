# honest: any
# stopped_by: landlock
# --- main

import os
size = os.stat("@SECRET_FILE@").st_size if os.access("@SECRET_FILE@", os.R_OK) else 0
try:
    with open("@SECRET_FILE@", "rb") as file:
        while file.read(1):
            print("escaped: reads a byte", flush=True)
except OSError:
    pass

def sq(x):
    return x * x
