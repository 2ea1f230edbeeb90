# honest: pass
# --- main

import gc

kept = []

class Last:
    def __init__(self):
        self.me = self
    def __del__(self):
        Last()
        kept.append(self)

Last()
gc.collect()
def sq(x):
    return x * x
