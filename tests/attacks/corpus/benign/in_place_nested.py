# honest: pass
# --- test
def check(candidate):
    grid = [[1, 2], [3, 4]]
    candidate(grid)
    assert grid == [[2, 1], [4, 3], [0]]
# --- main
def sq(grid):
    for row in grid:
        row.reverse()
    grid.append([0])
