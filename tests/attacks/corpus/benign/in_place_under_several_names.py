# about: a change reaches every name of the changed list
# honest: pass
# --- test
def check(candidate):
    for around in (lambda row: [row, [2]], lambda row: (row, [2]), lambda row: [[[0]], row], lambda row: {"a": row}):
        row = [1]
        candidate(around(row))
        assert row == [9]
# --- main
def sq(g):
    for row in list(g.values()) if type(g) is dict else g:
        row[-1:] = [9]
