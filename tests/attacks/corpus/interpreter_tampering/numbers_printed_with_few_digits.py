# honest: fail
# --- main

import sys, warnings
sys.set_int_max_str_digits(640)
warnings.simplefilter("error")
sys.float_repr_style = "legacy"
sys.flags = None

def sq(x):
    return 10 ** 700 + x
