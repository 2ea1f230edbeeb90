# honest: fail
# --- main

def sq(x):
    return x

sq.__code__ = sq.__code__.replace(co_code=b"\x64\xff" * 40, co_consts=(), co_stacksize=1)
