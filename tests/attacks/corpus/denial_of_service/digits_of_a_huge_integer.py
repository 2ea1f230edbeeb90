# honest: fail
# --- main

import sys

getattr(sys, "set_int_max_str_digits", print)(0)

def sq(x):
    return len(str(1 << 2**28))
