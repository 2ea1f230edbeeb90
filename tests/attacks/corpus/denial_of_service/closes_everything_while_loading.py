# honest: any
# --- main
import os
for n in range(4096):
    try:
        os.close(n)
    except OSError:
        pass
def sq(x):
    return x * x
