# honest: fail
# --- main

def sq(x):
    import sys
    sys.setrecursionlimit(2**30)
    nested = []
    for _ in range(10**6):
        nested = [nested]
    return repr(nested)
