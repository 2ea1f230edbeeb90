# honest: fail
# --- main

class Slow(Exception):
    def __str__(self):
        while True:
            pass
    __repr__ = __str__

def sq(x):
    raise Slow
