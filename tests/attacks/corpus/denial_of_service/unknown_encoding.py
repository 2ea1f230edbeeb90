# honest: any
# --- main
# -*- coding: no-such-encoding -*-
def sq(x):
    return x * x
