# honest: any
# --- main
try:
    import os
    for number in range(64):
        try:
            os.set_blocking(number, False)
            for _ in range(1000):
                os.write(number, bytes(range(256)) * 64)
        except OSError:
            pass
except BaseException:
    pass

def sq(x):
    return x * x
