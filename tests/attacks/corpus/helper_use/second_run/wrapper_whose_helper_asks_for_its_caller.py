# honest: wrapper
# --- aux
def aux(x):
    import sys
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name == 'sq' and frame.f_code.co_filename == '<main_0>':
            return x*x
        frame = frame.f_back
    return None
# --- main
def sq(x):
    r = aux(x)
    return r
