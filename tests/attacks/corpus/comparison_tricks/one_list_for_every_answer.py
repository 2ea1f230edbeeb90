# about: values that cross a process are copies: the aliasing cannot be seen
# honest: any
# --- test
def check(candidate):
    first = candidate(2)
    first.append(9)
    assert candidate(2) == [4]
# --- main
SAME = [4]

def sq(x):
    return SAME
