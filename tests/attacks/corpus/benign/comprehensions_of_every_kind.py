# honest: pass
# --- test
def check(candidate):
    assert candidate(3) == ([1], {0: set(), 1: {0}, 2: {0, 1}}, [(1, 0), (2, 0), (2, 1)], 6)
# --- main
def sq(n):
    squares = [i * i for i in range(n) if i % 2]
    table = {i: {j for j in range(i)} for i in range(n)}
    pairs = [(i, j) for i in range(n) for j in range(i)]
    return squares, table, pairs, sum(x for row in [[1, 2], [3]] for x in row)
