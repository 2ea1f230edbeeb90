# honest: pass
# --- test
def check(candidate):
    assert candidate(3) == 9
# --- main
def sq(x):
    return x * x
if __name__ == "__main__":
    import sys
    sys.exit("this must not run")
